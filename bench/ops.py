"""Every operator on 2^18 elements, both sides: `make bench-ops`. CASE=text picks expressions; LEVEL, THREADS: side.py.

A case is an expression over the operands of operands(), which both sides evaluate. Each side runs all cases in one
process, the sides alternate, the best time of each counts. Printed are the geometric mean of a family, then all cases
by ratio, the slowest first; build/bench-ops.json keeps them.
"""

from __future__ import annotations

import json
import math
import sys
from datetime import date
from pathlib import Path
from typing import Any

from bench import side
from bench.rows import per_call

FAMILIES = {
    "light": "x+y; x-y; x*y; x/y; x*0.5; x+1; -x; x.abs(); x.square(); x.reciprocal(); x.sqrt(); p.rsqrt(); x.floor(); "
    "x.ceil(); x.round(); x.trunc(); x.frac(); x.sign(); x.clamp(-1, 1); torch.maximum(x, y); torch.lerp(x, y, 0.3); "
    "torch.addcmul(x, y, z); torch.addcdiv(x, y, p); x.copysign(y); x.nan_to_num()",
    "functions": "x.exp(); x.expm1(); x.exp2(); p.log(); p.log1p(); p.log2(); p.log10(); x.sin(); x.cos(); x.tan(); "
    "x.tanh(); x.sinh(); x.cosh(); x.asinh(); u.asin(); u.acos(); x.atan(); u.atanh(); torch.atan2(x, y); x.erf(); "
    "x.erfc(); p**2.5; p**y; x**2; x**3; torch.fmod(x, y); torch.remainder(x, y); torch.hypot(x, y); "
    "torch.logaddexp(x, y); torch.special.expit(x); x.sinc(); p.logit(1e-6); torch.xlogy(x, p); x.lgamma()",
    "activations": "F.relu(x); F.gelu(x); F.gelu(x, approximate='tanh'); F.silu(x); F.mish(x); F.elu(x); F.selu(x); "
    "F.celu(x); F.softplus(x); F.softsign(x); F.hardtanh(x); F.hardsigmoid(x); F.hardswish(x); F.leaky_relu(x); "
    "F.logsigmoid(x); torch.sigmoid(x); F.relu6(x); F.threshold(x, 0.1, 0.0); F.hardshrink(x); F.softshrink(x); "
    "F.glu(x)",
    "broadcast": "x+v; x+c; x*v; x*c; x.t()+y; x[:, ::2]+y[:, ::2]; x.view(8, 64, 512)+k",
    "compare": "x>y; x==y; x<0; m&n; m|n; ~m; torch.where(m, x, y); x.masked_fill(m, 0.0); x.isnan(); x.isfinite(); "
    "i==j; i<3; torch.isclose(x, y); torch.equal(x, x1)",
    "int64": "i+j; i*j; i-j; i//j; i%j; i&j; i|j; i<<1; i>>1; -i; i.abs(); torch.maximum(i, j); i.clamp(2, 5); "
    "i.sum(); i.cumsum(0); i.max()",
    "casts": "x.to(torch.float16); h.to(torch.float32); x.to(torch.bfloat16); b.to(torch.float32); "
    "x.to(torch.float64); x.to(torch.int64); i.to(torch.float32); m.to(torch.float32); x.to(torch.bool); "
    "i.to(torch.int32)",
    "half": "h+h; b+b; b*b; F.gelu(b); b.exp(); b.sum(); F.softmax(b, -1); F.layer_norm(b, (512,))",
    "double": "d+d; d.exp(); d.log(); d.sin(); d.tanh(); d.erf(); d.sum(); F.softmax(d, -1)",
    "sums": "x.sum(); x.sum(0); x.sum(1); x.view(8, 64, 512).sum(1); x.mean(); x.mean(-1); x.var(); x.var(1); "
    "x.std(0); x.prod(); x.norm(); x.norm(dim=1); x.max(); x.max(1); x.min(0); x.amax(1); x.argmax(1); "
    "x.argmax(); m.any(); "
    "m.all(1); x.logsumexp(1); x.t().sum(); x.count_nonzero(); x.sum((0, 1), keepdim=True)",
    "scans": "x.cumsum(1); x.cumsum(0); x.cumprod(1); x.sort(1); x.argsort(1); f.sort(); fi.argsort(); x.topk(5, 1); "
    "f.topk(100); x.cummax(1)",
    "norms": "F.softmax(x, -1); F.softmax(x, 0); F.log_softmax(x, -1); F.layer_norm(x, (512,), v, v); "
    "F.group_norm(g, 8); F.normalize(x, dim=1); F.rms_norm(x, (512,), v); F.cosine_similarity(x, y, 1)",
    "losses": "F.cross_entropy(x, t); F.nll_loss(x, t); F.mse_loss(x, y); F.l1_loss(x, y); F.smooth_l1_loss(x, y); "
    "F.huber_loss(x, y); F.binary_cross_entropy_with_logits(x, q); F.binary_cross_entropy(q, q); F.kl_div(x, q)",
    "indexing": "x[t]; x[:, t]; x.index_select(0, t); x.index_select(1, t); x.gather(1, w); x.gather(0, w); x[m]; "
    "x.index_add(0, t, y); x.scatter_add(1, w, y); x.scatter(1, w, y); x.index_copy(0, t, y); x.take_along_dim(w, 1); "
    "F.embedding(w, e); m.nonzero(); F.one_hot(t, 512); x.masked_select(m)",
    "moves": "x.clone(); x.t().contiguous(); torch.cat([x, y]); torch.cat([x, y], 1); torch.stack([x, y]); "
    "x.roll(3, 1); x.flip(0); x.flip(1); x.tril(); x.triu(); x.repeat(2, 1); x.repeat_interleave(2, 0); "
    "F.pad(x, (1, 1, 1, 1)); "
    "F.pad(g3, (2, 2, 2, 2), mode='reflect'); F.pixel_shuffle(g, 2); x.view(8, 64, 512).permute(2, 0, 1).contiguous(); "
    "x.diagonal().clone(); torch.zeros(512, 512); torch.full((512, 512), 2.0); torch.arange(1 << 18); "
    "torch.linspace(0, 1, 1 << 18); torch.eye(512)",
    "random": "x.normal_(); x.uniform_(); torch.randn(512, 512); torch.rand(512, 512); torch.randint(9, (512, 512)); "
    "q.bernoulli(); F.dropout(x, 0.1); torch.randperm(1 << 16)",
    "products": "x@y; x@y.t(); x.t()@y; x@v; v@y; torch.addmm(x, y, z); torch.bmm(g2, g2); a4@a4; torch.outer(v, v); "
    "torch.einsum('ij,kj->ik', x, y); F.linear(x, y, v); F.scaled_dot_product_attention(a4, a4, a4); torch.dot(f, f)",
    "in place": "x1.add_(0.0); x1.mul_(1.0); x1.copy_(y); x1.zero_(); x1.fill_(1.0); x1.clamp_(-3, 3); "
    "x1.addcmul_(y, z, value=0.0)",
}


def operands(torch: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    x, y, z = (torch.randn(512, 512) for _ in range(3))
    found = {"torch": torch, "F": torch.nn.functional, "x": x, "y": y, "z": z, "x1": x.clone(), "p": x.abs() + 0.1}
    found |= {"u": torch.rand(512, 512) * 1.8 - 0.9, "q": torch.rand(512, 512), "v": torch.randn(512)}
    found |= {"c": torch.randn(512, 1), "k": torch.randn(8, 1, 512), "m": x > 0, "n": y > 0, "f": torch.randn(1 << 18)}
    found |= {"i": torch.randint(1, 9, (512, 512)), "j": torch.randint(1, 9, (512, 512))}
    found |= {"t": torch.randint(0, 512, (512,)), "w": torch.randint(0, 512, (512, 512))}
    found |= {"fi": torch.randint(0, 1 << 30, (1 << 18,)), "e": torch.randn(512, 16), "a4": torch.randn(4, 8, 128, 64)}
    found |= {"h": x.to(torch.float16), "b": x.to(torch.bfloat16), "d": x.to(torch.float64)}
    return found | {"g": torch.randn(4, 64, 32, 32), "g2": torch.randn(16, 128, 128), "g3": torch.randn(4, 16, 64, 64)}


def cases() -> list[tuple[str, str]]:
    return [(family, text.strip()) for family, all_of_it in FAMILIES.items() for text in all_of_it.split(";")]


def run(torch: Any, wanted: str) -> dict[str, float]:
    """Microseconds of each case; one that this side cannot run is left out and said on stderr."""
    figures: dict[str, float] = {}
    names = operands(torch)
    with torch.no_grad():
        for _, text in cases():
            if wanted not in text:
                continue
            try:
                function = eval(f"lambda: {text}", names)
                function()
                once = per_call(function, 1, 3)
                figures[text] = per_call(function, max(1, int(2000 / (once + 0.1))), 5)
            except (AttributeError, NotImplementedError, TypeError, RuntimeError, IndexError) as error:
                print(f"{sys.argv[1]}: {text}: {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)
    return figures


def mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> int:
    best = side.best_of("bench.ops", 2)
    theirs, ours = best["torch"], best["narthex"]
    rows = [(family, text, theirs[text], ours.get(text)) for family, text in cases() if text in theirs]
    known = [(family, text, theirs, ours, ours / theirs) for family, text, theirs, ours in rows if ours]
    if not known:
        raise SystemExit("no case was run on both sides")
    print(f"2^18 elements, {side.describe()}, {date.today()}; Narthex's time over PyTorch's\n")
    for family in FAMILIES:
        ratios = [row[4] for row in known if row[0] == family]
        if ratios:
            print(f"{family:14} {mean(ratios):6.2f}  of {len(ratios)}")
    ratios = [row[4] for row in known]
    above = [sum(ratio > limit for ratio in ratios) for limit in (1.0, 1.3, 1.5)]
    print(f"{'all':14} {mean(ratios):6.2f}  of {len(ratios)}; above 1: {above[0]}, 1.3: {above[1]}, 1.5: {above[2]}\n")
    for family, text, theirs, ours, ratio in sorted(known, key=lambda row: -row[4]):
        print(f"{ratio:6.2f}  {theirs:9.1f} us {ours:9.1f} us  {text}   ({family})")
    for family, text, _, ours in rows:
        if ours is None:
            print(f"     -  not there: {text}   ({family})")
    Path("build").mkdir(exist_ok=True)
    kept = [dict(zip(("family", "case", "torch", "narthex", "ratio"), row)) for row in known]
    record = {"date": str(date.today()), "how": side.describe(), "rows": kept}
    Path("build/bench-ops.json").write_text(json.dumps(record, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
