"""torch.utils.model_zoo: the older name of what torch.hub does."""

from .._absent import getter
from ..hub import load_state_dict_from_url

__all__ = ["load_url"]
load_url = load_state_dict_from_url
_absent = getter("torch.utils.model_zoo")


def __getattr__(name: str):
    if name != "tqdm":
        return _absent(name)
    from ..hub import tqdm

    return tqdm
