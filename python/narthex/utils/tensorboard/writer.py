"""The writers: each call becomes a summary, which the package tensorboard puts into a file of events."""

from __future__ import annotations

import os
import time

import numpy as np
from tensorboard.compat.proto import event_pb2
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from ..._absent import getter
from . import summary


class FileWriter:
    """Summaries and graphs into one file of events in `log_dir`, from a thread of its own."""

    def __init__(self, log_dir, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "") -> None:
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        return self.event_writer.get_logdir()

    def add_event(self, event, step=None, walltime=None) -> None:
        """Writes an event with its step and time (seconds, now by default)."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary, global_step=None, walltime=None) -> None:
        """Writes a summary."""
        self.add_event(event_pb2.Event(summary=summary), global_step, walltime)

    def add_graph(self, graph_profile, walltime=None) -> None:
        """Writes (a GraphDef, what its run took)."""
        graph, stats = graph_profile
        self.add_event(event_pb2.Event(graph_def=graph.SerializeToString()), None, walltime)
        if stats is not None:
            meta = event_pb2.TaggedRunMetadata(tag="step1", run_metadata=stats.SerializeToString())
            self.add_event(event_pb2.Event(tagged_run_metadata=meta), None, walltime)

    def flush(self) -> None:
        """Waits until all is in the file."""
        self.event_writer.flush()

    def close(self) -> None:
        """Flushes and closes the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Opens another file after close()."""
        self.event_writer.reopen()


def _buckets() -> list[float]:
    """Limits that grow by a tenth from 1e-12 to 1e20, on both sides of 0."""
    limits = [1e-12]
    while limits[-1] * 1.1 < 1e20:
        limits.append(limits[-1] * 1.1)
    return [*(-limit for limit in reversed(limits)), 0.0, *limits]


class SummaryWriter:
    """What TensorBoard shows of a run: numbers, histograms, images, sounds, texts, curves, settings, points, graphs."""

    def __init__(self, log_dir=None, comment: str = "", purge_step=None, max_queue: int = 10, flush_secs: int = 120,
                 filename_suffix: str = "") -> None:  # fmt: skip
        if not log_dir:
            import socket
            from datetime import datetime

            began = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{began}_{socket.gethostname()}{comment}")
        self.log_dir, self.purge_step = log_dir, purge_step
        self.max_queue, self.flush_secs, self.filename_suffix = max_queue, flush_secs, filename_suffix
        self.file_writer = self.all_writers = None
        self.default_bins = _buckets()
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        if self.all_writers is None or self.file_writer is None:
            self.file_writer = FileWriter(self.log_dir, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                self.file_writer.add_event(Event(step=self.purge_step, file_version="brain.Event:2"))
                again = SessionLog(status=SessionLog.START)
                self.file_writer.add_event(Event(step=self.purge_step, session_log=again))
                self.purge_step = None
        return self.file_writer

    def _add(self, made, global_step, walltime) -> None:
        self._get_file_writer().add_summary(made, global_step, walltime)

    def get_logdir(self):
        """The folder."""
        return self.log_dir

    # ---- numbers ------------------------------------------------------------------------------------------------
    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style: bool = False,
                   double_precision: bool = False) -> None:  # fmt: skip
        """A number of a step."""
        made = summary.scalar(tag, scalar_value, new_style=new_style, double_precision=double_precision)
        self._add(made, global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None) -> None:
        """Several numbers for one chart, each in a folder of its own."""
        walltime = time.time() if walltime is None else walltime
        folder = self._get_file_writer().get_logdir()
        for tag, value in tag_scalar_dict.items():
            own = folder + "/" + main_tag.replace("/", "_") + "_" + tag
            if own not in self.all_writers:
                self.all_writers[own] = FileWriter(own, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers[own].add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag, tensor, global_step=None, walltime=None) -> None:
        """All elements of a tensor."""
        self._add(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None) -> None:
        """How often which values are there."""
        bins = self.default_bins if isinstance(bins, str) and bins == "tensorflow" else bins
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(self, tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts,  # noqa: A002
                          global_step=None, walltime=None) -> None:  # fmt: skip
        """A histogram that the program has counted."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        made = summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(made, global_step, walltime)

    def add_pr_curve(self, tag, labels, predictions, global_step=None, num_thresholds: int = 127, weights=None,
                     walltime=None) -> None:  # fmt: skip
        """Precision over recall."""
        self._add(summary.pr_curve(tag, labels, predictions, num_thresholds, weights), global_step, walltime)

    def add_pr_curve_raw(self, tag, true_positive_counts, false_positive_counts, true_negative_counts,
                         false_negative_counts, precision, recall, global_step=None, num_thresholds: int = 127,
                         weights=None, walltime=None) -> None:  # fmt: skip
        """Precision over recall, as the program has counted."""
        counts = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        self._add(summary.pr_curve_raw(tag, *counts, precision, recall, num_thresholds, weights), global_step, walltime)

    # ---- images, sounds, words ----------------------------------------------------------------------------------
    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats: str = "CHW") -> None:
        """An image: floats from 0 to 1, or bytes."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats: str = "NCHW") -> None:
        """Several images as one grid."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_image_with_boxes(self, tag, img_tensor, box_tensor, global_step=None, walltime=None, rescale=1,
                             dataformats: str = "CHW", labels=None) -> None:  # fmt: skip
        """An image with boxes."""
        labels = [labels] if isinstance(labels, str) else labels
        if labels is not None and len(labels) != len(box_tensor):
            labels = None
        made = summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels)
        self._add(made, global_step, walltime)

    def add_figure(self, tag: str, figure, global_step=None, close: bool = True, walltime=None) -> None:
        """A figure of matplotlib, or a list of such."""
        figures = figure if isinstance(figure, list) else [figure]
        drawn = []
        for each in figures:
            from matplotlib.backends.backend_agg import FigureCanvasAgg

            canvas = FigureCanvasAgg(each)
            canvas.draw()
            drawn.append(np.asarray(canvas.buffer_rgba())[..., :3].transpose(2, 0, 1))
            if close:
                import matplotlib.pyplot

                matplotlib.pyplot.close(each)
        if isinstance(figure, list):
            self.add_image(tag, np.stack(drawn), global_step, walltime, dataformats="NCHW")
        else:
            self.add_image(tag, drawn[0], global_step, walltime, dataformats="CHW")

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None) -> None:
        """Not there."""
        raise NotImplementedError("add_video: films are not written; add_images shows their pictures")

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate: int = 44100, walltime=None) -> None:
        """A sound."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None) -> None:
        """Words."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    # ---- the rest -----------------------------------------------------------------------------------------------
    def add_graph(self, model, input_to_model=None, verbose: bool = False, use_strict_trace: bool = True) -> None:
        """The operators of model(*input_to_model), with sizes."""
        from ._graph import graph_of

        self._get_file_writer().add_graph((graph_of(model, input_to_model, verbose), None))

    def add_onnx_graph(self, prototxt) -> None:
        """Not there."""
        raise NotImplementedError("add_onnx_graph: there is no ONNX; add_graph shows a module")

    def add_embedding(self, mat, metadata=None, label_img=None, global_step=None, tag: str = "default",
                      metadata_header=None) -> None:  # fmt: skip
        """Points for the projector: a row of `mat` each, with labels and small images."""
        from ._embedding import write_points

        write_points(self._get_file_writer().get_logdir(), summary.make_np(mat), metadata, label_img, global_step, tag,
                     metadata_header)  # fmt: skip

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None,
                    global_step=None) -> None:  # fmt: skip
        """The settings of a run and what came of it, in a folder of its own."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        parts = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(log_dir=folder) as own:
            for part in parts:
                own.file_writer.add_summary(part, global_step)
            for name, value in metric_dict.items():
                own.add_scalar(name, value, global_step)

    def add_mesh(self, tag, vertices, colors=None, faces=None, config_dict=None, global_step=None,
                 walltime=None) -> None:  # fmt: skip
        """Points in space, with colours and triangles."""
        self._add(summary.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def add_custom_scalars(self, layout) -> None:
        """Which numbers stand in one chart."""
        self._add(summary.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(self, tags, category: str = "default", title: str = "untitled") -> None:
        """Several numbers in one chart."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags, category: str = "default", title: str = "untitled") -> None:
        """A number between two others."""
        if len(tags) != 3:
            raise AssertionError(f"The length of tags should be 3, but got {len(tags)} instead.")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def flush(self) -> None:
        """Waits until all is in the files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Flushes and closes the files; a later call opens others."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exception) -> None:
        self.close()


__getattr__ = getter("torch.utils.tensorboard.writer")
