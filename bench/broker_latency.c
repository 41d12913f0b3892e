/* From send to consumer: one connection sends at a fixed rate, another holds a long poll per queue.
 *
 *   broker_latency HOST PORT RATE QUEUES RAMP_S SECONDS PIDS < frames
 *
 * Standard input has QUEUES frames that send to the queues, then QUEUES frames that pull from them.
 * A message is due every 1/RATE s, whatever has come of those before; its latency is from then until
 * its pull is answered, for each has in its body when it was due. Every message that is taken must
 * arrive, and in order; those that the broker is too busy for are counted. Figures are of the SECONDS after RAMP_S. Prints one line of JSON.
 */
#include "broker_wire.h"

#include <sys/timerfd.h>

enum { QUEUES_MAX = 64, FRAME_BYTES_MAX = 4096, PRODUCER = 0, CONSUMER = 1, TIMER = 2 };

struct peer {
  int fd;
  char *in, *out;
  size_t in_bytes, out_bytes;
};

struct queue {
  const char *send_frame, *pull_frame;
  size_t send_bytes, pull_bytes;
  size_t send_body_at, send_opaque_at;
  size_t offset_at, offset_end; /* where the digits of the offset are in the frame of the pull */
  long next_offset;
};

static struct queue queues[QUEUES_MAX];
static struct peer peers[2];
static unsigned queue_count;
static uint64_t sent, acknowledged, refused, received, measured, measured_from, measured_to;

static void push(struct peer* p) {
  while (p->out_bytes) {
    ssize_t done = send(p->fd, p->out, p->out_bytes, MSG_NOSIGNAL);
    if (done < 0 && errno != EAGAIN) fail("cannot send: %s", strerror(errno));
    if (done < 0) return; /* the timer comes by soon */
    memmove(p->out, p->out + done, p->out_bytes -= (size_t)done);
  }
}

static char* room_for(struct peer* p, size_t bytes) {
  if (p->out_bytes + bytes > READ_BYTES) fail("the broker does not take what is sent to it");
  p->out_bytes += bytes;
  return p->out + p->out_bytes - bytes;
}

static void send_message(uint64_t due_ns) {
  const struct queue* q = &queues[sent % queue_count];
  char* frame = room_for(&peers[PRODUCER], q->send_bytes);
  memcpy(frame, q->send_frame, q->send_bytes);
  put_opaque(frame + q->send_opaque_at, (uint32_t)(OPAQUE_FIRST + sent % OPAQUES));
  memcpy(frame + q->send_body_at, &due_ns, sizeof due_ns);
  sent++;
}

static void send_pull(unsigned number) {
  const struct queue* q = &queues[number];
  char digits[24], *frame;
  size_t digits_bytes = (size_t)snprintf(digits, sizeof digits, "%ld", q->next_offset);
  size_t bytes = q->pull_bytes - (q->offset_end - q->offset_at) + digits_bytes;
  frame = room_for(&peers[CONSUMER], bytes);
  memcpy(frame, q->pull_frame, q->offset_at);
  memcpy(frame + q->offset_at, digits, digits_bytes);
  memcpy(frame + q->offset_at + digits_bytes, q->pull_frame + q->offset_end,
         q->pull_bytes - q->offset_end);
  put32(frame, (uint32_t)(bytes - 4));
  put32(frame + 4, (uint32_t)(bytes - 8)); /* a pull has no body */
  char* opaque = memmem(frame, bytes, "\"opaque\":", 9);
  put_opaque(opaque + 9, OPAQUE_FIRST + number);
}

static void take_acknowledgement(const struct answer* a) {
  if (a->code != 0 && a->code != BUSY) fail_answer("a message was not taken", a);
  if (a->code == BUSY)
    refused++;
  else
    acknowledged++;
}

static void take_messages(const struct answer* a, uint64_t now) {
  unsigned number = (unsigned)(a->opaque - OPAQUE_FIRST);
  if (number >= queue_count) fail_answer("nobody asked", a);
  struct queue* q = &queues[number];
  if (a->code != 0 && a->code != 19) fail_answer("a long poll failed", a);
  for (size_t at = 0; at < a->body_bytes;) {
    size_t left = a->body_bytes - at, size = left < RECORD_HEAD_BYTES ? 0 : get32(a->body + at);
    if (size < RECORD_HEAD_BYTES + 8 || size > left || get32(a->body + at + 4) != RECORD_MAGIC)
      fail_answer("a long poll brought what is no message", a);
    if (get64(a->body + at + 20) != (uint64_t)q->next_offset)
      fail_answer("a long poll brought a message of another offset", a);
    uint64_t due_ns;
    memcpy(&due_ns, a->body + at + RECORD_HEAD_BYTES, sizeof due_ns);
    if (due_ns >= measured_from && due_ns < measured_to) {
      count_latency(now - due_ns);
      measured++;
    }
    q->next_offset++;
    received++;
    at += size;
  }
  send_pull(number);
}

static void serve(unsigned which) {
  struct peer* p = &peers[which];
  struct answer a;
  size_t at = 0;
  p->in_bytes += receive(p->fd, p->in, p->in_bytes);
  uint64_t now = now_ns();
  for (; take_answer(p->in + at, p->in_bytes - at, &a); at += a.frame_bytes) {
    if (which == PRODUCER)
      take_acknowledgement(&a);
    else
      take_messages(&a, now);
  }
  memmove(p->in, p->in + at, p->in_bytes -= at);
  push(p);
}

static size_t find_end(const char* frame, size_t bytes, const char* text) {
  const char* found = memmem(frame, bytes, text, strlen(text));
  if (!found) fail("a frame has no %s", text);
  return (size_t)(found - frame) + strlen(text);
}

static void read_queues(void) {
  struct input all = read_input();
  const char *at = all.data, *end = all.data + all.bytes;
  for (unsigned i = 0; i < 2 * queue_count; i++) {
    struct queue* q = &queues[i % queue_count];
    if (end - at < 8 || (size_t)(end - at) < 4 + get32(at)) fail("frames are missing");
    size_t bytes = 4 + get32(at);
    if (i < queue_count) {
      q->send_frame = at;
      q->send_bytes = bytes;
      q->send_body_at = 8 + (get32(at + 4) & 0xFFFFFF);
      q->send_opaque_at = find_end(at, bytes, "\"opaque\":");
    } else {
      q->pull_frame = at;
      q->pull_bytes = bytes;
      q->offset_at = find_end(at, bytes, "\"queueOffset\":\"");
      q->offset_end = q->offset_at + strspn(at + q->offset_at, "0123456789");
      q->next_offset = number_in(at, bytes, "queueOffset", -1);
    }
    at += bytes;
  }
}

static int start_timer(int poll_fd, uint64_t interval_ns) {
  int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  struct timespec interval = {(time_t)(interval_ns / 1000000000u),
                              (long)(interval_ns % 1000000000u)};
  struct itimerspec every = {.it_interval = interval, .it_value = interval};
  if (fd < 0 || timerfd_settime(fd, 0, &every, NULL)) fail("no timer: %s", strerror(errno));
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = TIMER};
  epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event);
  return fd;
}

/* Send what is due and take what comes until all of it is there. */
static struct cpu work(int poll_fd, uint64_t started, uint64_t interval_ns, const char* pids) {
  struct cpu cpu = {0, 0, 0};
  int timer = start_timer(poll_fd, interval_ns), is_measuring = 0;
  uint64_t due = started, now = started, deadline = measured_to + STALL_MS * 1000000ull;
  while (now < measured_to || acknowledged + refused < sent || received < acknowledged) {
    struct epoll_event events[8];
    int ready = epoll_wait(poll_fd, events, 8, STALL_MS);
    for (int i = 0; i < ready; i++) {
      uint64_t expired;
      if (events[i].data.u32 == TIMER)
        (void)!read(timer, &expired, sizeof expired);
      else
        serve(events[i].data.u32);
    }
    now = now_ns();
    if (is_measuring == 0 && now >= measured_from) {
      is_measuring = 1;
      cpu = cpu_now(pids);
    }
    if (is_measuring == 1 && now >= measured_to) {
      is_measuring = 2;
      cpu = cpu_since(pids, cpu);
    }
    for (; due <= now && due < measured_to; due += interval_ns) send_message(due);
    push(&peers[PRODUCER]);
    push(&peers[CONSUMER]);
    if (now > deadline)
      fail("%lu messages came; %lu were sent, %lu acknowledged, %lu refused", received, sent,
           acknowledged, refused);
  }
  return cpu;
}

int main(int argc, char** argv) {
  if (argc != 8) fail("broker_latency HOST PORT RATE QUEUES RAMP_S SECONDS PIDS");
  uint64_t interval_ns = (uint64_t)(1e9 / atof(argv[3]));
  queue_count = (unsigned)atoi(argv[4]);
  double ramp_s = atof(argv[5]), seconds = atof(argv[6]);
  int poll_fd = epoll_create1(0);
  if (queue_count == 0 || queue_count > QUEUES_MAX) fail("1 to %d queues", QUEUES_MAX);
  read_queues();
  for (uint32_t i = 0; i < 2; i++) {
    peers[i] = (struct peer){connect_to(argv[1], argv[2]), malloc(READ_BYTES), malloc(READ_BYTES),
                             0, 0};
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, peers[i].fd, &event);
  }
  for (unsigned i = 0; i < queue_count; i++) send_pull(i);
  push(&peers[CONSUMER]);
  uint64_t started = now_ns();
  measured_from = started + (uint64_t)(ramp_s * 1e9);
  measured_to = measured_from + (uint64_t)(seconds * 1e9);
  struct cpu cpu = work(poll_fd, started, interval_ns, argv[7]);
  printf("{\"seconds\":%f,\"answered\":%lu,\"refused\":%lu,\"p50_us\":%.1f,\"p99_us\":%.1f,"
         "\"server_cpu_s\":%.2f,\"generator_cpu_s\":%.3f,\"others_cpu_s\":%.2f}\n",
         seconds, measured, refused, percentile_us(0.50, measured), percentile_us(0.99, measured),
         cpu.server_s, cpu.generator_s, cpu.others_s);
  return 0;
}
