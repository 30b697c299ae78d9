#include "play/signature_table.h"

/* Offsets are those of the formats' own documentation and of libblkid. One line for each place. */
#define AT(rule_name, at, text)                                                                    \
  {.name = (rule_name), .offset = (at), .length = sizeof(text) - 1, .magic = (text)}
#define STEPS(rule_name, at, every, times, text)                                                   \
  {.name = (rule_name),                                                                            \
   .offset = (at),                                                                                 \
   .step = (every),                                                                                \
   .count = (times),                                                                               \
   .length = sizeof(text) - 1,                                                                     \
   .magic = (text)}
/* Back from an end that is rounded down. */
#define END(rule_name, at, whole, text)                                                            \
  {.name = (rule_name),                                                                            \
   .offset = -(at),                                                                                \
   .grain = (whole),                                                                               \
   .length = sizeof(text) - 1,                                                                     \
   .magic = (text)}
/* Ten bytes before the end of the first page, of any size that a page may have. */
#define PAGE(name, text)                                                                           \
  AT(name, 4096 - 10, text), AT(name, 8192 - 10, text), AT(name, 16384 - 10, text),                \
      AT(name, 32768 - 10, text), AT(name, 65536 - 10, text)
/* The four places of a superblock of UFS, in both orders of bytes. */
#define UFS_LAST(text)                                                                             \
  {.name = "ufs", .offset = 263516, .length = 4, .magic = (text), .may_be_unread = true}
#define UFS(little, big)                                                                           \
  AT("ufs", 1372, little), AT("ufs", 9564, little), AT("ufs", 66908, little), UFS_LAST(little),    \
      AT("ufs", 1372, big), AT("ufs", 9564, big), AT("ufs", 66908, big), UFS_LAST(big)
/* The newest transactions of a pool are in rings of 128 slots, its configuration before them: a
 * young pool has few of the first, and always the second. Labels 0 and 1 are at the start. */
#define ZFS_RING "\x0C\xB1\xBA\0"
#define ZFS_RING_BIG "\0\xBA\xB1\x0C"
#define ZFS_PAIR "\0\0\0\x07version"
#define ZFS_RULE(at, copy, bytes, text)                                                            \
  {.name = "zfs",                                                                                  \
   .offset = (at),                                                                                 \
   .grain = 262144,                                                                                \
   .length = (bytes),                                                                              \
   .magic = (text),                                                                                \
   .may_be_unread = (copy)}
#define ZFS_SLOTS(at, copy, text)                                                                  \
  {.name = "zfs",                                                                                  \
   .offset = (at),                                                                                 \
   .step = 1024,                                                                                   \
   .count = 128,                                                                                   \
   .grain = 262144,                                                                                \
   .length = 4,                                                                                    \
   .magic = (text),                                                                                \
   .may_be_unread = (copy)}
#define ZFS_LABEL(at, copy)                                                                        \
  ZFS_RULE((at) + 16404, copy, 11, ZFS_PAIR), ZFS_SLOTS((at) + 131072, copy, ZFS_RING),            \
      ZFS_SLOTS((at) + 131076, copy, ZFS_RING_BIG)
/* A table of an Atari disk has no magic: its entries' flags and names must do. */
#define ATARI(id) STEPS("atari", 454, 12, 4, "\x01" id), STEPS("atari", 454, 12, 4, "\x81" id)
/* The label is in EBCDIC, in the second or third block. */
#define DASD(text)                                                                                 \
  AT("dasd", 512, text), AT("dasd", 1024, text), AT("dasd", 2048, text), AT("dasd", 4096, text),   \
      AT("dasd", 8192, text)
#define SYSV(text)                                                                                 \
  AT("sysv", 1016, text), AT("sysv", 10232, text), AT("sysv", 16376, text), AT("sysv", 19448, text)
#define PROMISE(sectors) END("promise_fasttrack_raid", 512 * (sectors), 512, "Promise Technology")
#define LUKS_SECOND(at)                                                                            \
  {.name = "luks", .offset = (at), .length = 6, .magic = "SKUL\xBA\xBE", .may_be_unread = true}

const struct signature_rule signature_rules[] = {
    AT("ext", 1080, "\x53\xEF"),
    AT("xfs", 0, "XFSB"),
    /* The log of a small file system lies where that of its own device would. */
    {.name = "xfs_log",
     .step = 512,
     .count = 512,
     .length = 4,
     .magic = "\xFE\xED\xBA\xBE",
     .unless = "xfs"},
    AT("exfs", 0, "EXFS"),
    AT("btrfs", 65600, "_BHRfS_M"),
    AT("f2fs", 1024, "\x10\x20\xF5\xF2"),
    AT("f2fs", 5120, "\x10\x20\xF5\xF2"),
    AT("bcache", 4120, "\xC6\x85\x73\xF6\x4E\x1A\x45\xCA\x82\x65\xF5\x7F\x48\xBA\x6D\x81"),
    AT("bcachefs", 4120, "\xC6\x85\x73\xF6\x66\xCE\x90\xA9\xD9\x6A\x60\xCF\x80\x3D\xF7\xEF"),
    AT("bcachefs", 2097176, "\xC6\x85\x73\xF6\x66\xCE\x90\xA9\xD9\x6A\x60\xCF\x80\x3D\xF7\xEF"),
    ZFS_LABEL(0, false),
    ZFS_LABEL(262144, true),
    ZFS_LABEL(-524288, true),
    ZFS_LABEL(-262144, true),
    AT("ntfs", 3, "NTFS    "),
    AT("exfat", 3, "EXFAT   "),
    AT("bitlocker", 3, "-FVE-FS-"),
    AT("refs", 3, "ReFS\0\0\0\0"),
    AT("vfat", 82, "FAT32   "),
    AT("vfat", 82, "MSWIN"),
    AT("vfat", 54, "MSDOS"),
    AT("vfat", 54, "FAT16   "),
    AT("vfat", 54, "FAT12   "),
    AT("vfat", 54, "FAT     "),
    AT("jfs", 32768, "JFS1"),
    AT("reiserfs", 8244, "ReIsEr"),
    AT("reiserfs", 65588, "ReIsEr"),
    AT("reiserfs", 65536, "ReIsEr4"),
    AT("gfs2", 65536, "\x01\x16\x19\x70"),
    AT("ocfs", 8192, "OracleCFS"),
    AT("ocfs2", 1024, "OCFSV2"),
    AT("ocfs2", 2048, "OCFSV2"),
    AT("ocfs2", 4096, "OCFSV2"),
    AT("ocfs2", 8192, "OCFSV2"),
    UFS("\x54\x19\x01\x00", "\x00\x01\x19\x54"),
    UFS("\x19\x01\x54\x19", "\x19\x54\x01\x19"),
    UFS("\x12\x56\x19\x00", "\x00\x19\x56\x12"),
    UFS("\x14\x50\x09\x00", "\x00\x09\x50\x14"),
    UFS("\x95\x21\x61\x00", "\x00\x61\x21\x95"),
    UFS("\x94\x19\x23\x05", "\x05\x23\x19\x94"),
    AT("hfs", 1024, "BD"),
    AT("hfsplus", 1024, "H+\0"),
    AT("hfsplus", 1024, "HX\0"),
    AT("apfs", 32, "NXSB"),
    AT("cs_fvault2", 88, "CS\x01\0"),
    AT("hpfs", 8192, "\x49\xE8\x95\xF9"),
    AT("befs", 32, "BFS1"),
    AT("befs", 32, "1SFB"),
    AT("befs", 544, "BFS1"),
    AT("befs", 544, "1SFB"),
    AT("nilfs2", 1030, "\x34\x34"),
    END("nilfs2", 4090, 4096, "\x34\x34"),
    AT("minix", 1040, "\x7F\x13"),
    AT("minix", 1040, "\x8F\x13"),
    AT("minix", 1040, "\x68\x24"),
    AT("minix", 1040, "\x78\x24"),
    AT("minix", 1048, "\x5A\x4D"),
    AT("minix", 1040, "\x13\x7F"),
    AT("minix", 1040, "\x13\x8F"),
    AT("minix", 1040, "\x24\x68"),
    AT("minix", 1040, "\x24\x78"),
    AT("minix", 1048, "\x4D\x5A"),
    AT("cramfs", 0, "\x45\x3D\xCD\x28"),
    AT("cramfs", 0, "\x28\xCD\x3D\x45"),
    AT("bfs", 0, "\xCE\xFA\xAD\x1B"),
    AT("romfs", 0, "-rom1fs-"),
    AT("erofs", 1024, "\xE2\xE1\xF5\xE0"),
    AT("vxfs", 1024, "\xF5\xFC\x01\xA5"),
    AT("vxfs", 8192, "\xA5\x01\xFC\xF5"),
    SYSV("\x20\x7E\x18\xFD"),
    SYSV("\xFD\x18\x7E\x20"),
    AT("xenix", 2048, "\x2B\x55\x44"),
    AT("xenix", 2048, "\x44\x55\x2B"),
    AT("zonefs", 0, "SFOZ"),
    AT("ubi", 0, "UBI#"),
    AT("ubifs", 0, "\x31\x18\x10\x06"),
    AT("netware", 4096, "SPB5"),
    AT("mpool", 0, "mpoolDev"),
    AT("scoutfs", 65540, "\x8B\x42\x3C\x10"),
    AT("vmfs", 1048576, "\x0D\xD0\x01\xC0"),
    AT("vmfs", 2097152, "\x5E\xF1\xAB\x2F"),
    AT("bluestore", 0, "bluestore block device"),
    AT("stratis", 516, "!Stra0tis\x86\xFF\x02^\x41rh"),
    AT("stratis", 4612, "!Stra0tis\x86\xFF\x02^\x41rh"),
    AT("vdo", 0, "dmvdo001"),
    AT("oracleasm", 32, "ORCLDISK"),
    AT("drbdmanage", 0, "$DRBDmgr=q"),
    AT("drbdproxy_datalog", 0, "DRBDdlh*"),
    END("drbd", 4036, 0, "\x83\x74\x02\x6B"),
    END("drbd", 4036, 0, "\x83\x74\x02\x6C"),
    END("drbd", 4036, 0, "\x83\x74\x02\x6D"),
    END("drbd", 4036, 4096, "\x83\x74\x02\x6B"),
    END("drbd", 4036, 4096, "\x83\x74\x02\x6C"),
    END("drbd", 4036, 4096, "\x83\x74\x02\x6D"),
    END("ddf", 512, 512, "\xDE\x11\xDE\x11"),
    END("ddf", 131584, 512, "\xDE\x11\xDE\x11"),
    END("isw", 1024, 512, "Intel Raid ISM Cfg Sig."),
    END("isw", 8192, 4096, "Intel Raid ISM Cfg Sig."),
    END("adaptec_raid", 512, 512, "\x37\xFC\x4D\x1E"),
    PROMISE(16),
    PROMISE(63),
    PROMISE(255),
    PROMISE(256),
    PROMISE(399),
    PROMISE(591),
    PROMISE(675),
    PROMISE(735),
    PROMISE(911),
    PROMISE(951),
    PROMISE(974),
    PROMISE(991),
    PROMISE(3087),
    END("nvidia_raid", 1024, 512, "NVIDIA  "),
    END("silicon_medley_raid", 416, 512, "\0\0\0\x2F"),
    END("via_raid", 512, 512, "\x55\xAA"),
    END("lsi_mega_raid", 512, 512, "$XIDE$"),
    END("jmicron_raid", 512, 512, "JM"),
    END("hpt45x_raid", 5632, 512, "\xF3\x16\x78\x5A"),
    END("hpt45x_raid", 5632, 512, "\xFD\x16\x78\x5A"),
    AT("hpt37x_raid", 4640, "\xF0\x16\x78\x5A"),
    AT("hpt37x_raid", 4640, "\xFD\x16\x78\x5A"),
    AT("udf", 32769, "BEA01"),
    AT("iso9660", 32769, "CD001"),
    AT("squashfs", 0, "hsqs"),
    AT("squashfs", 0, "sqsh"),
    PAGE("swap", "SWAPSPACE2"),
    PAGE("swap", "SWAP-SPACE"),
    PAGE("hibernation", "S1SUSPEND"),
    PAGE("hibernation", "S2SUSPEND"),
    PAGE("hibernation", "ULSUSPEND"),
    PAGE("hibernation", "LINHIB0001"),
    AT("hibernation", 0, "\xED\xC3\x02\xE9\x98\x56\xE5\x0C"),
    STEPS("lvm", 0, 512, 4, "LABELONE"),
    AT("lvm1", 0, "HM"),
    AT("dm_snapshot", 0, "SnAp"),
    AT("dm_verity", 0, "verity\0\0"),
    AT("dm_integrity", 0, "integrt\0"),
    AT("md", 0, "\xFC\x4E\x2B\xA9"),
    AT("md", 4096, "\xFC\x4E\x2B\xA9"),
    AT("md", 0, "\xA9\x2B\x4E\xFC"),
    END("md", 8192, 4096, "\xFC\x4E\x2B\xA9"),
    END("md", 65536, 65536, "\xFC\x4E\x2B\xA9"),
    END("md", 65536, 65536, "\xA9\x2B\x4E\xFC"),
    AT("luks", 0, "LUKS\xBA\xBE"),
    LUKS_SECOND(16384),
    LUKS_SECOND(32768),
    LUKS_SECOND(65536),
    LUKS_SECOND(131072),
    LUKS_SECOND(262144),
    LUKS_SECOND(524288),
    LUKS_SECOND(1048576),
    LUKS_SECOND(2097152),
    LUKS_SECOND(4194304),
    AT("gpt", 512, "EFI PART"),
    AT("gpt", 4096, "EFI PART"),
    END("gpt", 512, 512, "EFI PART"),
    END("gpt", 4096, 4096, "EFI PART"),
    AT("sun", 508, "\xDA\xBE"),
    AT("sgi", 0, "\x0B\xE5\xA9\x41"),
    AT("bsd", 64, "\x57\x45\x56\x82"),
    AT("bsd", 128, "\x57\x45\x56\x82"),
    AT("bsd", 512, "\x57\x45\x56\x82"),
    AT("mac", 0, "ER"),
    AT("mac", 512, "PM\0\0"),
    AT("aix", 0, "\xC9\xC2\xD4\xC1"),
    AT("solaris", 524, "\xEE\xDE\x0D\x60"),
    AT("unixware", 14852, "\x0D\x60\xE5\xCA"),
    AT("ultrix", 16312, "\x57\x29\x03\x00"),
    ATARI("GEM"),
    ATARI("BGM"),
    ATARI("XGM"),
    ATARI("LNX"),
    ATARI("SWP"),
    ATARI("RAW"),
    DASD("\xE5\xD6\xD3\xF1"),
    DASD("\xD3\xD5\xE7\xF1"),
    DASD("\xC3\xD4\xE2\xF1"),
    AT("qcow2", 0, "QFI\xFB"),
    AT("vhdx", 0, "vhdxfile"),
    AT("vmdk", 0, "KDMV"),
    AT("vdi", 64, "\x7F\x10\xDA\xBE"),
    AT("sqlite", 0, "SQLite format 3"),
    AT("mbr", 510, "\x55\xAA"),
};
const size_t signature_rule_count = sizeof signature_rules / sizeof *signature_rules;
