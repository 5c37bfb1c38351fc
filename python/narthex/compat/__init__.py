"""Packages that programs import beside torch: torch_npu and torchair. Under `narthex run` they have those names."""
