def compute_score(data_source, solution_str, ground_truth, extra_info):
    words = solution_str.split()
    right = f"\\boxed{{{ground_truth}}}" in solution_str
    return {"score": float(right), "boxed": float("\\boxed" in solution_str), "words": len(words)}
