"""Where PyTorch has the pieces of torch.utils.benchmark."""
