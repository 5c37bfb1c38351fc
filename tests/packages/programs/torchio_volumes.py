"""torchio: transforms of volumes, patches and their aggregation."""
import warnings

import torch
import torchio as tio

warnings.filterwarnings("ignore")

torch.manual_seed(0)
subject = tio.Subject(image=tio.ScalarImage(tensor=torch.rand(1, 16, 16, 12)),
                      label=tio.LabelMap(tensor=(torch.rand(1, 16, 16, 12) > 0.5).long()))
steps = {
    "flip": tio.RandomFlip(axes=(0, 1), flip_probability=0.7), "noise": tio.RandomNoise(std=(0, 0.2)),
    "blur": tio.RandomBlur(), "gamma": tio.RandomGamma(), "bias": tio.RandomBiasField(), "spike": tio.RandomSpike(),
    "ghost": tio.RandomGhosting(), "swap": tio.RandomSwap(patch_size=3, num_iterations=5),
    "affine": tio.RandomAffine(), "elastic": tio.RandomElasticDeformation(num_control_points=5, max_displacement=1),
    "resample": tio.Resample(1.5), "z": tio.ZNormalization(), "crop": tio.CropOrPad((10, 10, 10)),
    "onehot": tio.OneHot(2), "rescale": tio.RescaleIntensity((0, 1)),
}
for name, step in steps.items():
    torch.manual_seed(1)
    made = step(subject)
    total = made.image.data.double().abs().sum().item()
    print(name, tuple(made.image.shape), f"{total:.3f}", made.label.data.sum().item())
sampler = tio.GridSampler(subject, 8, 4)
aggregator = tio.GridAggregator(sampler, overlap_mode="average")
for batch in tio.SubjectsLoader(sampler, batch_size=4):
    aggregator.add_batch(batch["image"][tio.DATA] * 2, batch[tio.LOCATION])
print(f"{aggregator.get_output_tensor().sum().item():.3f}")
queue = tio.Queue(tio.SubjectsDataset([subject] * 2), 8, 4, tio.UniformSampler(6), num_workers=0)
print([tuple(b["image"][tio.DATA].shape) for b in tio.SubjectsLoader(queue, batch_size=4)])
