"""The thin line: f(x, w, b) = (x @ w.t() * b + b).sum() in every way that Narthex runs a program, one row a way."""
