/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Records the file system calls of a command and of all threads that come from it. Its tracer's
 * next child is the command, from its first exec on. What is kept of a thread lies in the thread,
 * so that a call of any other costs a look at a table and one at the thread. */
#include "file_memory.h"
#include "file_rule.h"
#include "record_ring.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

enum { RESERVED_PART = 8 };       /* of the ring, for what changes descriptors: one of so many */
enum { COMPAT = 2 };              /* of thread_info: a call of a 32-bit program */
enum { FOLDER_OF_CALLER = -100 }; /* AT_FDCWD */
enum { ANONYMOUS = 0x20, FIXED = 0x10 };
enum { GET_COPY = 0, SET_FD = 2, SET_FLAGS = 4, GET_COPY_CLOEXEC = 1030, SET_NAME = 15 };
enum { DEDUPE = 0xc0189436, SET_INODE_FLAGS = 0x40086602, SET_ATTRIBUTES = 0x401c5820 };
enum { KEEP_ON_EXEC = 0x5450, CLOSE_ON_EXEC = 0x5451 }; /* FIONCLEX, FIOCLEX */
enum { SHARES_MEMORY = 0x100, SHARES_FOLDER = 0x200, SHARES_FILES = 0x400, IS_THREAD = 0x10000 };

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, FILE_NUMBERS);
  __type(key, __u32);
  __type(value, struct file_rule);
} rules SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, FILE_COUNTS);
  __type(key, __u32);
  __type(value, __u64);
} counts SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, int);
  __type(value, struct file_thread);
} threads SEC(".maps");

static __always_inline __u64 count(__u32 what, __s64 change) {
  __u64 *found = bpf_map_lookup_elem(&counts, &what);
  return found ? __sync_fetch_and_add(found, change) + change : 0;
}

static __always_inline struct file_thread *thread_of(struct task_struct *task) {
  return bpf_task_storage_get(&threads, task, NULL, 0);
}

static __always_inline struct draft *begin_draft(__u32 tid, __u16 call) {
  struct draft *draft = the_draft();
  if (!draft)
    return NULL;
  __builtin_memset(&draft->record, 0, sizeof(draft->record));
  draft->record.tid = tid;
  draft->record.call = call;
  draft->record.start_ns = draft->record.end_ns = bpf_ktime_get_ns();
  return draft;
}

/* Passes the draft on. Returns whether there was space. */
static __always_inline bool leave(struct draft *draft, bool is_needed, bool is_last) {
  __u64 free = bpf_ringbuf_query(&records, BPF_RB_RING_SIZE);
  __u64 used = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA);
  __u32 size = (sizeof(draft->record) + text_end(&draft->record) + 7) & ~7U;
  if (!is_needed && used > free - free / RESERVED_PART) {
    count_lost();
    return false;
  }
  draft->record.size = size;
  if (size > sizeof(*draft))
    return false;
  return pass_on_bytes(draft, size, is_last);
}

static __always_inline const struct file_rule *rule_of(__u64 number) {
  __u32 place = (__u32)number;
  if (number >= FILE_NUMBERS)
    return NULL;
  const struct file_rule *rule = bpf_map_lookup_elem(&rules, &place);
  return rule && (rule->flags & FILE_IS_RECORDED) ? rule : NULL;
}

/* Of a close the descriptor is free before the call returns: another thread may get it meanwhile.
 */
static __always_inline void begin_close(struct file_thread *thread, struct task_struct *task,
                                        const struct file_rule *rule, __u32 number) {
  struct descriptor key = {(__u32)task->tgid, number};
  bpf_map_delete_elem(&named, &key);
  if (task->files->count.counter < 2)
    return;
  struct draft *draft = begin_draft((__u32)task->pid, rule->call);
  if (!draft)
    return;
  draft->record.start_ns = thread->start_ns;
  draft->record.end_ns = 0;
  draft->record.arguments[0] = number;
  draft->record.phase = FILE_BEGUN;
  thread->is_begun = leave(draft, true, false);
}

/* Another thread may close a descriptor during a call on it, and open another file there. */
static __always_inline void note_files(struct file_thread *thread, struct task_struct *task,
                                       const struct file_rule *rule, struct pt_regs *regs) {
  __u64 arguments[] = {regs->di, regs->si, regs->dx, regs->r10, regs->r8, regs->r9};
  thread->is_noted = task->files->count.counter > 1;
  if (!thread->is_noted)
    return;
  for (int place = 0; place < 2; place++) {
    __u64 argument = rule->fd[place];
    barrier_var(argument);
    if (argument < FILE_ARGUMENTS)
      thread->files[place] = (__u64)file_of(task, (__u32)arguments[argument]);
  }
}

SEC("tp_btf/sys_enter")
int BPF_PROG(call_began, struct pt_regs *regs, long number) {
  const struct file_rule *rule = rule_of((__u64)number);
  if (!rule)
    return 0;
  struct task_struct *task = bpf_get_current_task_btf();
  struct file_thread *thread = thread_of(task);
  if (!thread || thread->state != FILE_TRACED)
    return 0;
  thread->start_ns = 0;
  thread->is_begun = 0;
  if (task->thread_info.status & COMPAT) {
    count(FILE_COUNT_FOREIGN, 1);
    return 0;
  }
  thread->start_ns = bpf_ktime_get_ns();
  if (rule->call == FILE_CALL_close)
    begin_close(thread, task, rule, (__u32)regs->di);
  else
    note_files(thread, task, rule, regs);
  return 0;
}

/* Of calls that do many things: whether this one is recorded. */
static __always_inline bool kept(const struct file_rule *rule, const __u64 *arguments) {
  __u32 second = (__u32)arguments[1];
  switch (rule->call) {
  case FILE_CALL_fcntl:
    return second == GET_COPY || second == GET_COPY_CLOEXEC || second == SET_FD ||
           second == SET_FLAGS;
  case FILE_CALL_ioctl:
    return second == CLONE_FILE || second == CLONE_RANGE || second == DEDUPE ||
           second == SET_INODE_FLAGS || second == SET_ATTRIBUTES || second == CLOSE_ON_EXEC ||
           second == KEEP_ON_EXEC;
  case FILE_CALL_mmap: /* The kernel puts it where nothing is, unless the place is given. */
    return !(arguments[3] & ANONYMOUS) || (arguments[3] & FIXED);
  case FILE_CALL_prctl:
    return (__u32)arguments[0] == SET_NAME;
  }
  return true;
}

/* Whether the path behind a descriptor of a folder is needed: what is relative begins there. */
static __always_inline bool is_base(const struct draft *draft, const struct file_rule *rule,
                                    int place, __u32 number) {
  const struct file_record *record = &draft->record;
  if (!rule->is_folder[place])
    return false;
  __u32 before = place ? record->text_bytes[0] : 0;
  if (!record->text_bytes[place])
    return rule->path[1] != FILE_NO_ARGUMENT; /* the descriptor itself: of two names it is one */
  return draft->text[before & TEXT_MASK] != '/';
}

/* The argument that is a descriptor, or FILE_ARGUMENTS or more. */
static __always_inline __u64 descriptor_at(const struct file_record *record,
                                           const struct file_rule *rule, int place) {
  __u32 request = (__u32)record->arguments[1];
  if (!place || rule->call != FILE_CALL_ioctl)
    return rule->fd[place];
  /* What FICLONE and FICLONERANGE read from is no argument of other requests. */
  return (request == CLONE_FILE || request == CLONE_RANGE) && !record->unread ? 2 : FILE_ARGUMENTS;
}

/* Whether a descriptor leads to another file than when the call began. */
static __always_inline bool is_changed(const struct file_record *record,
                                       const struct file_rule *rule,
                                       const struct file_thread *thread, struct task_struct *task) {
  if (!thread->is_noted || rule->call == FILE_CALL_close)
    return false;
  for (int place = 0; place < 2; place++) {
    __u64 argument = rule->fd[place];
    barrier_var(argument);
    if (argument >= FILE_ARGUMENTS)
      continue;
    struct file *before = (void *)thread->files[place];
    struct file *now = file_of(task, (__u32)record->arguments[argument]);
    if (before != now && (has_path(before) || has_path(now)))
      return true;
  }
  return false;
}

/* Describes the descriptors. Returns how many of them lead to paths. */
static __always_inline int describe_all(struct draft *draft, const struct file_rule *rule,
                                        struct task_struct *task, struct opened fresh[2]) {
  struct file_record *record = &draft->record;
  int paths = 0;
  for (int place = 0; place < 2; place++) {
    __u64 argument = descriptor_at(record, rule, place);
    barrier_var(argument);
    if (argument >= FILE_ARGUMENTS)
      continue;
    __u32 number = (__u32)record->arguments[argument];
    bool is_wanted = is_base(draft, rule, place, number);
    bool is_absolute = rule->is_folder[place] && record->text_bytes[place] && !is_wanted;
    if (is_absolute || number == (__u32)FOLDER_OF_CALLER)
      continue;
    record->behind[place] = describe(draft, task, number, 2 + place, is_wanted, &fresh[place]);
    paths += record->behind[place] == FILE_PATH;
    if (is_wanted) /* The folder of a name is not taken for an open file. */
      fresh[place].file = 0;
  }
  return paths;
}

/* Adds the path that the result leads to, or the working directory. */
static __always_inline void add_result(struct draft *draft, const struct file_rule *rule,
                                       struct task_struct *task, struct opened *fresh) {
  if (draft->record.result < 0)
    return;
  if (rule->flags & FILE_MAKES_FD)
    describe(draft, task, (__u32)draft->record.result, 1, true, fresh);
  if (rule->flags & FILE_WORKING_FOLDER)
    add_path(draft, 1, BPF_CORE_READ(task, fs, pwd.mnt), BPF_CORE_READ(task, fs, pwd.dentry));
}

static __always_inline void keep_named(struct task_struct *task, __u32 number,
                                       const struct opened *fresh) {
  struct descriptor key = {(__u32)task->tgid, number};
  if (fresh->file)
    bpf_map_update_elem(&named, &key, fresh, BPF_ANY);
}

/* Makes and passes on the record of a call that has returned. */
static __always_inline void end_call(struct task_struct *task, struct file_thread *thread,
                                     const struct file_rule *rule, struct pt_regs *regs,
                                     long result) {
  struct opened fresh[3] = {};
  struct draft *draft = begin_draft((__u32)task->pid, rule->call);
  if (!draft)
    return;
  struct file_record *record = &draft->record;
  record->start_ns = thread->start_ns;
  record->result = result;
  record->phase = thread->is_begun ? FILE_ENDED : FILE_WHOLE;
  __u64 *arguments = record->arguments;
  arguments[0] = regs->di;
  arguments[1] = regs->si;
  arguments[2] = regs->dx;
  arguments[3] = regs->r10;
  arguments[4] = regs->r8;
  arguments[5] = regs->r9;
  if ((rule->flags & FILE_SOME) && !kept(rule, arguments))
    return;
  if (is_changed(record, rule, thread, task)) {
    count_lost(); /* which file it was of, nobody knows any more */
    return;
  }

  /* The texts stand in the order of their places. */
  read_path(draft, 0, rule->path[0]);
  read_path(draft, 1, rule->path[1]);
  read_memory(record, rule);
  add_result(draft, rule, task, &fresh[2]);
  int paths = rule->call == FILE_CALL_close ? 0 : describe_all(draft, rule, task, fresh);
  if ((rule->flags & FILE_ONLY_PATHS) && !paths)
    return;
  if (!leave(draft, rule->flags & FILE_CHANGES_FDS, false))
    return;
  for (int place = 0; place < 2; place++) {
    __u64 argument = rule->fd[place];
    barrier_var(argument);
    if (argument < FILE_ARGUMENTS)
      keep_named(task, (__u32)arguments[argument], &fresh[place]);
  }
  keep_named(task, (__u32)result, &fresh[2]);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(call_ended, struct pt_regs *regs, long result) {
  const struct file_rule *rule = rule_of(regs->orig_ax);
  if (!rule)
    return 0;
  struct task_struct *task = bpf_get_current_task_btf();
  struct file_thread *thread = thread_of(task);
  if (!thread || thread->state != FILE_TRACED || !thread->start_ns)
    return 0;
  end_call(task, thread, rule, regs, result);
  thread->start_ns = 0;
  return 0;
}

/* The command's first process, or a new thread of one that is traced. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(thread_made, struct task_struct *parent, struct task_struct *child) {
  struct file_thread *from = thread_of(parent);
  if (!from || (from->state == FILE_SPAWNS && child->tgid == parent->tgid))
    return 0;
  struct file_thread *thread =
      bpf_task_storage_get(&threads, child, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
  if (!thread) {
    count_lost();
    return 0;
  }
  thread->state = from->state == FILE_TRACED ? FILE_TRACED : FILE_WAITS;
  count(FILE_COUNT_LIVE, 1);
  count(FILE_COUNT_STARTED, 1);
  if (from->state == FILE_SPAWNS) {
    note_root(parent);
    bpf_task_storage_delete(&threads, parent); /* one child only */
  }
  if (thread->state != FILE_TRACED)
    return 0;
  struct draft *draft = begin_draft((__u32)parent->pid, FILE_FORK);
  if (!draft)
    return 0;
  draft->record.result = child->pid;
  draft->record.arguments[0] = (child->mm == parent->mm ? SHARES_MEMORY : 0) |
                               (child->fs == parent->fs ? SHARES_FOLDER : 0) |
                               (child->files == parent->files ? SHARES_FILES : 0) |
                               (child->tgid == parent->tgid ? IS_THREAD : 0);
  leave(draft, true, false);
  return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(program_begun, struct task_struct *task, int before, struct linux_binprm *program) {
  struct file_thread *thread = thread_of(task);
  if (!thread || thread->state == FILE_SPAWNS)
    return 0;
  thread->state = FILE_TRACED;
  thread->start_ns = 0;
  struct draft *draft = begin_draft((__u32)task->pid, FILE_EXEC);
  if (!draft)
    return 0;
  long bytes = bpf_probe_read_kernel_str(draft->text, FILE_PATH_BYTES, program->filename);
  draft->record.text_bytes[0] = bytes > 0 ? (__u16)(bytes - 1) : 0;
  draft->record.arguments[0] = (__u32)before;
  leave(draft, true, false);
  return 0;
}

static __always_inline void pass_on_end(__u32 tid, bool is_last) {
  struct draft *draft = begin_draft(tid, FILE_EXIT);
  if (draft)
    leave(draft, true, is_last);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(thread_ended, struct task_struct *task) {
  struct file_thread *thread = thread_of(task);
  if (!thread || thread->state == FILE_SPAWNS)
    return 0;
  bool is_leader = task->pid == task->tgid, was_traced = thread->state == FILE_TRACED;
  bool is_group = task->signal->live.counter == 0; /* the last thread of its process */
  thread->state = FILE_WAITS;
  bool is_last = count(FILE_COUNT_LIVE, -1) == 0;
  /* A process is named by its first thread, and lasts as long as any other. */
  if (was_traced && (!is_leader || is_group))
    pass_on_end((__u32)task->pid, is_last);
  if (was_traced && !is_leader && is_group)
    pass_on_end((__u32)task->tgid, is_last);
  return 0;
}
