"""stable-baselines3: PPO, A2C and DQN on CartPole for some steps."""
import numpy as np
from stable_baselines3 import A2C, DQN, PPO, SAC

runs = (
    (PPO, "CartPole-v1", {"n_steps": 64, "batch_size": 32, "n_epochs": 2}),
    (A2C, "CartPole-v1", {}),
    (DQN, "CartPole-v1", {"learning_starts": 50, "buffer_size": 500}),
    (SAC, "Pendulum-v1", {"learning_starts": 20, "buffer_size": 500}),
)
for kind, env, options in runs:
    model = kind("MlpPolicy", env, seed=0, device="cpu", policy_kwargs={"net_arch": [16, 16]}, **options)
    model.learn(150 if kind is SAC else 400)
    total = sum(p.double().abs().sum().item() for p in model.policy.parameters())
    action, _ = model.predict(np.full(model.observation_space.shape, 0.1, dtype=np.float32), deterministic=True)
    print(kind.__name__, f"{total:.3f}", np.round(action, 4))
