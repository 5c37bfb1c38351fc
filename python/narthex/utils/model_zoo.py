"""torch.utils.model_zoo: the older name of what torch.hub does."""

from ..hub import load_state_dict_from_url

__all__ = ["load_url"]
load_url = load_state_dict_from_url
