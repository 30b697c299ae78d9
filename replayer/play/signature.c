#include "play/signature.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "play/fault_guard.h"
#include "play/transfer.h"

#define PAGE UINT64_C(4096)

struct signature {
  const char *name;     /* what --overwrite-signature takes */
  uint64_t offset;      /* bytes from the start, or back from the end */
  bool is_from_end;     /* counted back from the end of the target */
  unsigned char length; /* of the magic */
  const char *magic;    /* bytes */
};

/* Offsets are those of the formats' own documentation and of libblkid. Kept to one line each. */
static const struct signature signatures[] = {
    {"ext", 1080, false, 2, "\x53\xEF"},
    {"xfs", 0, false, 4, "XFSB"},
    {"xfs_log", 0, false, 4, "\xFE\xED\xBA\xBE"},
    {"btrfs", 65600, false, 8, "_BHRfS_M"},
    {"f2fs", 1024, false, 4, "\x10\x20\xF5\xF2"},
    {"bcache", 4120, false, 16, "\xC6\x85\x73\xF6\x4E\x1A\x45\xCA\x82\x65\xF5\x7F\x48\xBA\x6D\x81"},
    {"bcachefs", 4120, false, 16,
     "\xC6\x85\x73\xF6\x66\xCE\x90\xA9\xD9\x6A\x60\xCF\x80\x3D\xF7\xEF"},
    {"zfs", 131072, false, 8, "\x0C\xB1\xBA\x00\x00\x00\x00\x00"},
    {"ntfs", 3, false, 8, "NTFS    "},
    {"exfat", 3, false, 8, "EXFAT   "},
    {"bitlocker", 3, false, 8, "-FVE-FS-"},
    {"refs", 3, false, 8, "ReFS\0\0\0\0"},
    {"jfs", 32768, false, 4, "JFS1"},
    {"reiserfs", 8244, false, 6, "ReIsEr"},
    {"reiserfs", 65588, false, 6, "ReIsEr"},
    {"reiserfs", 65536, false, 7, "ReIsEr4"},
    {"gfs2", 65536, false, 4, "\x01\x16\x19\x70"},
    {"ocfs2", 1024, false, 6, "OCFSV2"},
    {"ocfs2", 2048, false, 6, "OCFSV2"},
    {"ocfs2", 4096, false, 6, "OCFSV2"},
    {"ocfs2", 8192, false, 6, "OCFSV2"},
    {"ufs", 9564, false, 4, "\x54\x19\x01\x00"},
    {"ufs", 66908, false, 4, "\x54\x19\x01\x00"},
    {"hfsplus", 1024, false, 4, "H+\0\x04"},
    {"hfsplus", 1024, false, 4, "HX\0\x05"},
    {"apfs", 32, false, 4, "NXSB"},
    {"nilfs2", 1030, false, 2, "\x34\x34"},
    {"minix", 1040, false, 2, "\x7F\x13"},
    {"minix", 1040, false, 2, "\x8F\x13"},
    {"minix", 1040, false, 2, "\x68\x24"},
    {"minix", 1040, false, 2, "\x78\x24"},
    {"minix", 1048, false, 2, "\x5A\x4D"},
    {"cramfs", 0, false, 4, "\x45\x3D\xCD\x28"},
    {"bfs", 0, false, 4, "\xCE\xFA\xAD\x1B"},
    {"erofs", 1024, false, 4, "\xE2\xE1\xF5\xE0"},
    {"vmfs", 1048576, false, 4, "\x0D\xD0\x01\xC0"},
    {"bluestore", 0, false, 22, "bluestore block device"},
    {"stratis", 516, false, 16, "!Stra0tis\x86\xFF\x02^\x41rh"},
    {"stratis", 4612, false, 16, "!Stra0tis\x86\xFF\x02^\x41rh"},
    {"vdo", 0, false, 8, "dmvdo001"},
    {"oracleasm", 32, false, 8, "ORCLDISK"},
    {"ddf", 512, true, 4, "\xDE\x11\xDE\x11"},
    {"isw", 1024, true, 23, "Intel Raid ISM Cfg Sig."},
    {"udf", 32769, false, 5, "BEA01"},
    {"iso9660", 32769, false, 5, "CD001"},
    {"squashfs", 0, false, 4, "hsqs"},
    {"swap", 4086, false, 10, "SWAPSPACE2"},
    {"swap", 4086, false, 10, "SWAP-SPACE"},
    {"swap", 65526, false, 10, "SWAPSPACE2"},
    {"hibernation", 4086, false, 9, "S1SUSPEND"},
    {"lvm", 512, false, 8, "LABELONE"},
    {"lvm", 0, false, 8, "LABELONE"},
    {"lvm", 1024, false, 8, "LABELONE"},
    {"lvm", 1536, false, 8, "LABELONE"},
    {"md", 0, false, 4, "\xFC\x4E\x2B\xA9"},
    {"md", 4096, false, 4, "\xFC\x4E\x2B\xA9"},
    {"md", 8192, true, 4, "\xFC\x4E\x2B\xA9"},
    {"md", 65536, true, 4, "\xFC\x4E\x2B\xA9"},
    {"luks", 0, false, 6, "LUKS\xBA\xBE"},
    {"luks", 16384, false, 6, "SKUL\xBA\xBE"},
    {"gpt", 512, false, 8, "EFI PART"},
    {"gpt", 4096, false, 8, "EFI PART"},
    {"gpt", 512, true, 8, "EFI PART"},
    {"gpt", 4096, true, 8, "EFI PART"},
    {"qcow2", 0, false, 4, "QFI\xFB"},
    {"vhdx", 0, false, 8, "vhdxfile"},
    {"vmdk", 0, false, 4, "KDMV"},
    {"vdi", 64, false, 4, "\x7F\x10\xDA\xBE"},
    {"sqlite", 0, false, 16, "SQLite format 3"},
    {"mbr", 510, false, 2, "\x55\xAA"},
};

/* Where the bytes of a target come from: one of both. */
struct source {
  int fd;
  const unsigned char *mapped; /* NULL: read */
};

static void copy(void *to, const void *from, size_t length) { memcpy(to, from, length); }

static int take(const struct source *source, unsigned char *to, size_t length, uint64_t offset) {
  return source->mapped == NULL ? transfer_read(source->fd, to, length, offset)
                                : fault_guard_copy(copy, to, source->mapped + offset, length);
}

/* Where a signature lies; false when the target is too small for it. */
static bool place(const struct signature *signature, uint64_t size_bytes, uint64_t *offset) {
  if (!signature->is_from_end) {
    *offset = signature->offset;
  } else {
    if (size_bytes < signature->offset)
      return false;
    *offset = size_bytes - signature->offset;
    /* md keeps its superblock at a multiple of its distance: 4 KiB for 1.0, 64 KiB for 0.90. */
    if (strcmp(signature->name, "md") == 0)
      *offset &= ~(signature->offset / (signature->offset == 8192 ? 2 : 1) - 1);
  }
  return *offset + signature->length <= size_bytes;
}

/* Reads the pages around the bytes: the target may be open with O_DIRECT one day. */
static int matches(const struct source *source, uint64_t size_bytes,
                   const struct signature *signature, unsigned char *pages, bool *match) {
  uint64_t offset;
  *match = false;
  if (!place(signature, size_bytes, &offset))
    return 0;
  uint64_t first = offset & ~(PAGE - 1);
  uint64_t end = offset + signature->length;
  int rc = take(source, pages, (size_t)(end - first), first);
  if (rc == 0)
    *match = memcmp(pages + (offset - first), signature->magic, signature->length) == 0;
  return rc;
}

static void add(struct signature_set *found, const char *name) {
  for (uint32_t i = 0; i < found->count; i++)
    if (strcmp(found->names[i], name) == 0)
      return;
  found->names[found->count++] = name;
}

static int find(const struct source *source, uint64_t size_bytes, struct signature_set *found) {
  unsigned char *pages = malloc(2 * PAGE);
  found->count = 0;
  if (pages == NULL)
    return -ENOMEM;
  int rc = 0;
  for (size_t i = 0; i < sizeof signatures / sizeof *signatures && rc == 0; i++) {
    bool match;
    rc = matches(source, size_bytes, &signatures[i], pages, &match);
    if (match && found->count < SIGNATURE_NAMES)
      add(found, signatures[i].name);
  }
  free(pages);
  return rc;
}

int signature_find(int fd, uint64_t size_bytes, struct signature_set *found) {
  return find(&(struct source){.fd = fd}, size_bytes, found);
}

int signature_find_mapped(const unsigned char *bytes, uint64_t size_bytes,
                          struct signature_set *found) {
  return find(&(struct source){.fd = -1, .mapped = bytes}, size_bytes, found);
}
