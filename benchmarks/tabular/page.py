def page(s): return "x"
def markdown(s): return str(s.mean_ranks())
