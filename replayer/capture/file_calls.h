/* The system calls that a recording of file operations holds: CALL(name, arguments).
 *
 * One letter is an argument, in the kernel's order:
 *   f descriptor   d descriptor of a folder, its path follows   p path   n number, 64 bits
 *   i number, 32 bits, signed   u the same, unsigned   o pointer to an offset
 *   s pointer to struct stat   x pointer to struct statx   h pointer to struct open_how
 *   - nothing that is recorded   _ likewise, and strace does not print it
 * What a pointer leads to stands in the argument's place: an offset as it was before the call; of
 * stat the mode, with the size in the place of FILE_OTHER_FACT; of open_how the flags.
 * Behind the arguments: = the result is a descriptor; ! left out unless a descriptor leads to a
 * path; @ the working directory is text 1; ? some of the calls, see kept() in files.bpf.c. */
#ifndef TRACEKIT_CAPTURE_FILE_CALLS_H
#define TRACEKIT_CAPTURE_FILE_CALLS_H

/* Laid out by hand: one call a line would be longer than a screen. */
/* clang-format off */
#define FILE_CALLS(CALL) \
  CALL(open, "pu-=") CALL(creat, "p-=") CALL(openat, "dpu-=") CALL(openat2, "dph-=") \
  CALL(close, "f") CALL(close_range, "uuu") CALL(dup, "f") CALL(dup2, "fi") CALL(dup3, "fiu") \
  CALL(fcntl, "fin!?") CALL(ioctl, "fun!?") CALL(read, "f-n!") CALL(pread64, "f-nn!") \
  CALL(readv, "f-n!") CALL(preadv, "f-nn!") CALL(preadv2, "f-nn_u!") CALL(write, "f-n!") \
  CALL(pwrite64, "f-nn!") CALL(writev, "f-n!") CALL(pwritev, "f-nn!") CALL(pwritev2, "f-nn_u!") \
  CALL(sendfile, "ffon!") CALL(copy_file_range, "fofonu!") CALL(splice, "fofonu!") \
  CALL(lseek, "fnu!") CALL(ftruncate, "fn!") CALL(truncate, "pn") CALL(fallocate, "funn!") \
  CALL(fsync, "f!") CALL(fdatasync, "f!") CALL(sync_file_range, "fnnu!") CALL(sync, "") \
  CALL(syncfs, "f!") CALL(getdents, "f-u!") CALL(getdents64, "f-u!") CALL(stat, "ps") \
  CALL(lstat, "ps") CALL(fstat, "fs!") CALL(newfstatat, "dpsu") CALL(statx, "dpuux") \
  CALL(access, "pu") CALL(faccessat, "dpu") CALL(faccessat2, "dpuu") CALL(rename, "pp") \
  CALL(renameat, "dpdp") CALL(renameat2, "dpdpu") CALL(link, "pp") CALL(linkat, "dpdpu") \
  CALL(unlink, "p") CALL(unlinkat, "dpu") CALL(mkdir, "pu") CALL(mkdirat, "dpu") \
  CALL(rmdir, "p") CALL(mmap, "-nuufn?") CALL(munmap, "nn") CALL(msync, "nnu") CALL(chdir, "p@") \
  CALL(fchdir, "f") CALL(prctl, "ip?") CALL(symlink, "-p") CALL(symlinkat, "-dp") \
  CALL(mknod, "pu-") CALL(mknodat, "dpu-") CALL(chmod, "p-") CALL(fchmod, "f-!") \
  CALL(fchmodat, "dp-") CALL(fchmodat2, "dp--") CALL(chown, "p--") CALL(lchown, "p--") \
  CALL(fchown, "f--!") CALL(fchownat, "dp---") CALL(utime, "p-") CALL(utimes, "p-") \
  CALL(futimesat, "dp-") CALL(utimensat, "dp--") CALL(setxattr, "p--n-") \
  CALL(lsetxattr, "p--n-") CALL(fsetxattr, "f--n-!") CALL(getxattr, "p--n") \
  CALL(lgetxattr, "p--n") CALL(fgetxattr, "f--n!") CALL(listxattr, "p-n") \
  CALL(llistxattr, "p-n") CALL(flistxattr, "f-n!") CALL(removexattr, "p-") \
  CALL(lremovexattr, "p-") CALL(fremovexattr, "f-!") CALL(io_uring_setup, "") \
  CALL(io_uring_enter, "") CALL(io_submit, "") CALL(open_by_handle_at, "") CALL(chroot, "") \
  CALL(pivot_root, "") CALL(vmsplice, "") CALL(tee, "") CALL(setxattrat, "") \
  CALL(getxattrat, "") CALL(listxattrat, "") CALL(removexattrat, "") CALL(file_setattr, "") \
  CALL(unshare, "u") CALL(mremap, "nnnun")
/* clang-format on */

#define FILE_CALL_PLACE(name, arguments) FILE_CALL_##name,
enum file_call { FILE_CALLS(FILE_CALL_PLACE) FILE_CALL_COUNT };

#endif
