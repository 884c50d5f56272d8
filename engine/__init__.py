"""Everything without a screen: training, reward, data, runs. Never imports grubrics_tui."""
