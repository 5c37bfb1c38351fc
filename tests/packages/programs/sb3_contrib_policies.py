"""sb3-contrib: TRPO, QR-DQN, recurrent and masked PPO for some steps."""
import numpy as np
from sb3_contrib import ARS, QRDQN, TQC, TRPO, RecurrentPPO

small = {"net_arch": [16, 16]}
runs = (
    (TRPO, "MlpPolicy", "CartPole-v1", {"n_steps": 64, "batch_size": 32, "policy_kwargs": small}),
    (QRDQN, "MlpPolicy", "CartPole-v1", {"learning_starts": 50, "buffer_size": 500, "policy_kwargs": small}),
    (TQC, "MlpPolicy", "Pendulum-v1", {"learning_starts": 20, "buffer_size": 500, "policy_kwargs": small}),
    (RecurrentPPO, "MlpLstmPolicy", "CartPole-v1", {"n_steps": 32, "batch_size": 32, "n_epochs": 2,
                                                    "policy_kwargs": {"lstm_hidden_size": 16, **small}}),
    (ARS, "LinearPolicy", "CartPole-v1", {"n_delta": 2}),
)
for kind, policy, env, options in runs:
    model = kind(policy, env, seed=0, device="cpu", **options)
    model.learn(100)
    total = sum(p.double().abs().sum().item() for p in model.policy.parameters())
    print(kind.__name__, f"{total:.3f}", model.num_timesteps)
    assert np.isfinite(total)
