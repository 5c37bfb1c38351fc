"""tianshou: DQN, PPO and SAC collect steps of a pole and learn from them."""
import logging
import warnings

import gymnasium as gym
import numpy as np
import torch
from tianshou.algorithm import DQN, PPO
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from tianshou.utils.torch_utils import policy_within_training_step

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)


def envs():
    made = DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(2)])
    made.seed(0)
    return made


def told(algorithm):
    print(type(algorithm).__name__, f"{sum(p.abs().sum().item() for p in algorithm.parameters()):.3f}")


space = gym.make("CartPole-v1").action_space
for name in ("DQN", "PPO"):
    torch.manual_seed(0)
    np.random.seed(0)
    space.seed(0)
    net = Net(state_shape=(4,), action_shape=2, hidden_sizes=[16, 16]) if name == "DQN" else Net(
        state_shape=(4,), hidden_sizes=[16, 16])
    if name == "DQN":
        policy = DiscreteQLearningPolicy(model=net, action_space=space, eps_training=0.0)
        algorithm = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-2), target_update_freq=2,
                        n_step_return_horizon=3)
    else:
        actor = DiscreteActor(preprocess_net=net, action_shape=2)
        critic = DiscreteCritic(preprocess_net=net)
        policy = ProbabilisticActorPolicy(actor=actor, dist_fn=torch.distributions.Categorical, action_space=space,
                                        action_scaling=False, action_bound_method=None)
        algorithm = PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=1e-2), max_grad_norm=0.5)
    buffer = VectorReplayBuffer(200, 2)
    collector = Collector(algorithm, envs(), buffer, exploration_noise=False)
    collector.reset()
    collector.collect(n_step=64)
    for _ in range(3):
        with policy_within_training_step(algorithm.policy):
            if name == "DQN":
                algorithm.update(buffer=buffer, sample_size=32)
            else:
                algorithm.update(buffer=buffer, batch_size=32, repeat=2)
    told(algorithm)
    print(buffer.rew.sum(), len(buffer))
