"""torch._dynamo.convert_frame: in Narthex frames are converted in C, so that these callbacks do not exist yet."""

from .._later import names

globals().update(
    names(
        "torch._dynamo.convert_frame",
        "use torch.compile(f, backend=my_backend)",
        ("ConvertFrame", "ConvertFrameAssert", "catch_errors_wrapper", "convert_frame", "convert_frame_assert"),
    )
)
