"""skorch: a network as a scikit-learn classifier, on scikit-learn's digits."""

import torch
from sklearn.datasets import load_digits
from skorch import NeuralNetClassifier


class Network(torch.nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.first, self.second = torch.nn.Linear(64, hidden), torch.nn.Linear(hidden, 10)

    def forward(self, x):
        return torch.softmax(self.second(torch.relu(self.first(x))), -1)


x, y = load_digits(return_X_y=True)
torch.manual_seed(0)
classifier = NeuralNetClassifier(Network, max_epochs=5, lr=0.1, iterator_train__shuffle=True, verbose=0)
classifier.fit(x.astype("float32") / 16, y)
print([float(x) for x in classifier.history[:, "train_loss"] + classifier.history[:, "valid_loss"]])
print(classifier.predict(x[:20].astype("float32") / 16).tolist())
