/* What the events of the kernel's texts are of, by their names. */
#ifndef TRACEKIT_READ_TEXT_LAYER_H
#define TRACEKIT_READ_TEXT_LAYER_H

/* Of the first ones requests are read; all others are passed over and counted. */
enum text_layer {
  LAYER_BLOCK,
  LAYER_NVME,
  LAYER_UFS,
  LAYER_SCSI,
  LAYER_F2FS,
  LAYER_EXT4,
  LAYER_XFS,
  LAYER_BTRFS,
  LAYER_JBD2,
  LAYER_OTHER, /* such as the scheduler's */
  LAYER_END
};

#endif
