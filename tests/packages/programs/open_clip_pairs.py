"""open_clip: a small network for pictures and words, random weights: its features, its loss, steps of training."""

import torch

library = torch.library.Library("torchvision", "DEF")  # as in torchvision_pictures.py
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
import open_clip  # noqa: E402
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg  # noqa: E402

torch.manual_seed(0)
vision = CLIPVisionCfg(layers=2, width=64, head_width=16, patch_size=8, image_size=32)
text = CLIPTextCfg(context_length=16, vocab_size=49408, width=32, heads=4, layers=2)
model = CLIP(embed_dim=24, vision_cfg=vision, text_cfg=text)
words = torch.randint(1, 49407, (4, 16))
words[:, -1] = 49407
pictures = torch.randn(4, 3, 32, 32)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(5):
    features = model(pictures, words)
    loss = open_clip.ClipLoss()(*features)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.5f}")
with torch.no_grad():
    seen, said = model.encode_image(pictures, normalize=True), model.encode_text(words, normalize=True)
    print((seen @ said.T).argmax(1).tolist(), f"{(seen @ said.T).abs().sum().item():.4f}")
convolved = CLIP(24, CLIPVisionCfg(layers=(1, 1, 1, 1), width=16, image_size=32), text)
print(f"{convolved.eval()(pictures, words)[0].abs().sum().item():.4f}")
