"""torchviz and torchview: networks as drawings."""

import torch
from torch import nn
from torchview import draw_graph
from torchviz import make_dot

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5), nn.LayerNorm(5))
x = torch.randn(2, 3, 8, 8)
dot = make_dot(net(x).mean(), params=dict(net.named_parameters()))
print(len(dot.source.splitlines()))
graph = draw_graph(net, input_data=x, expand_nested=True)
print(len(graph.edge_list), graph.visual_graph.source.count("->"))
