# SPDX-License-Identifier: BSD-3-Clause
"""A service that predicts rows with a model of `bochner export`.

``BOCHNER_MODEL=model.onnx uvicorn app:app`` starts it. ``POST /predict`` takes rows as JSON, ``GET /health`` says that
the model is loaded and which columns it needs.
"""

import os
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from served_model import RefusedRows, ServedModel

MOST_BYTES = 1 << 20

model = ServedModel(Path(os.environ.get("BOCHNER_MODEL", "model.onnx")))
app = FastAPI(title="Predictions", docs_url=None, redoc_url=None)


@app.get("/health")
async def health() -> dict[str, Any]:
    """Report that the model is loaded."""
    return {"status": "ok", "columns": model.columns}


@app.post("/predict")
async def predict(request: Request) -> JSONResponse:
    """Predict rows, or refuse them with one message."""
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > MOST_BYTES:  # before the rest is read
            return refusal(413, f"The request is larger than {MOST_BYTES} bytes; send fewer rows at a time.")
    try:
        return JSONResponse(model.predict(bytes(content)))
    except RefusedRows as error:
        return refusal(422, str(error))


def refusal(code: int, message: str) -> JSONResponse:
    """Return one message."""
    return JSONResponse({"error": message}, status_code=code)
