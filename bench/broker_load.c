/* Load on a broker: many connections, requests in flight on each, every answer looked at.
 *
 *   broker_load HOST PORT CONNECTIONS IN_FLIGHT RAMP_S SECONDS MESSAGES PIDS [REQUESTS] < frames
 *
 * Standard input has frames of requests, which are sent in turn again and again. Each time a frame
 * gets an opaque of its own, and new last digits for every unique key in it. Answers may come in any
 * order. Each must be a success; those of pulls must have MESSAGES messages from the offset that was
 * asked for. With MESSAGES 0 the requests are no pulls. With -1 they are transactions: frames come in
 * pairs, a half message and its end, which is sent as soon as the half message was answered, with its
 * offset in the log for @L, that in its queue for @Q and its key for @K. A transaction counts when its
 * end is answered, and takes as long as both. Code 2, by which a broker refuses work, is counted
 * apart. Figures are of the SECONDS after RAMP_S, or of all if REQUESTS says how many to send; then
 * the rest is waited for. PIDS, with commas between them, are the processes of the broker. Prints one
 * line of JSON.
 */
#include "broker_wire.h"

enum { KEY_DIGITS = 32, KEY_COUNTED = 12, ID_DIGITS = 32, VALUE_BYTES = 64, VALUES = 4 };

struct request {
  char* frame;
  size_t bytes;
  size_t opaque_at;
  size_t* keys_at; /* the digits that count, of each unique key */
  size_t keys;
  long queue_offset; /* the first that a pull asks for */
};

struct slot {
  const struct request* request; /* NULL while nothing is on its way */
  uint64_t sent_ns;
  uint32_t opaque;
  int is_ending; /* the end of a transaction is on its way */
};

struct peer {
  int fd, wants_write;
  struct slot* slots;
  char *in, *out;
  size_t in_bytes, out_at, out_bytes;
};

static struct request* requests;
static size_t request_count, frame_bytes_max;
static uint64_t made, to_make = UINT64_MAX, on_way, answered, refused;
static unsigned in_flight;
static long messages;
static size_t frames_each = 1;
static int poll_fd;

static size_t find_keys(const char* frame, size_t bytes, size_t* at) {
  size_t found = 0;
  const char *name = "UNIQ_KEY", *end = frame + bytes;
  for (const char* key = frame; (key = memmem(key, (size_t)(end - key), name, strlen(name)));) {
    key += strlen(name);
    key += *key == '\\' ? 6 : 1; /* the separator, written as \u0001 in JSON */
    if (at) at[found] = (size_t)(key - frame) + KEY_DIGITS - KEY_COUNTED;
    found++;
  }
  return found;
}

static void prepare(struct request* r, char* frame, size_t bytes) {
  const char* opaque = memmem(frame, bytes, "\"opaque\":", 9);
  if (!opaque) fail("a frame has no opaque");
  *r = (struct request){.frame = frame, .bytes = bytes, .opaque_at = (size_t)(opaque + 9 - frame)};
  r->keys = find_keys(frame, bytes, NULL);
  r->keys_at = malloc((r->keys + 1) * sizeof *r->keys_at);
  find_keys(frame, bytes, r->keys_at);
  r->queue_offset = number_in(frame, bytes, "queueOffset", -1);
  bytes += VALUES * VALUE_BYTES; /* those that an end has more */
  if (bytes > frame_bytes_max) frame_bytes_max = bytes;
}

static void read_requests(void) {
  struct input all = read_input();
  for (size_t at = 0; at < all.bytes; at += 4 + get32(all.data + at)) request_count++;
  requests = calloc(request_count, sizeof *requests);
  char* at = all.data;
  for (size_t i = 0; i < request_count; i++) {
    prepare(&requests[i], at, 4 + get32(at));
    at += requests[i].bytes;
  }
  if (!request_count || request_count % frames_each) fail("no frames on standard input, or half of one");
}

/* Give a slot the next opaque that is its own. */
static uint32_t next_opaque(struct slot* slot, unsigned number) {
  slot->opaque = slot->opaque + in_flight < OPAQUES ? slot->opaque + in_flight : number;
  return OPAQUE_FIRST + slot->opaque;
}

/* Put the next request behind what a connection has still to send. */
static void make_request(struct peer* p, unsigned number, uint64_t now) {
  static const char digits[] = "0123456789ABCDEF";
  static uint64_t keys_made;
  if (made == to_make) return;
  const struct request* r = &requests[made * frames_each % request_count];
  struct slot* slot = &p->slots[number];
  char* frame = p->out + p->out_bytes;
  memcpy(frame, r->frame, r->bytes);
  put_opaque(frame + r->opaque_at, next_opaque(slot, number));
  for (size_t i = 0; i < r->keys; i++) {
    uint64_t key = keys_made++;
    char* at = frame + r->keys_at[i];
    for (int d = KEY_COUNTED - 1; d >= 0; d--, key >>= 4) at[d] = digits[key & 15];
  }
  p->out_bytes += r->bytes;
  slot->request = r;
  slot->sent_ns = now;
  slot->is_ending = 0;
  made++;
  on_way++;
}

/* The text of a field of an answer. */
static void text_in(const struct answer* a, const char* name, char value[VALUE_BYTES]) {
  char quoted[VALUE_BYTES];
  size_t quoted_bytes = (size_t)snprintf(quoted, sizeof quoted, "\"%s\":\"", name), length = 0;
  const char* at = memmem(a->header, a->header_bytes, quoted, quoted_bytes);
  const char* end = a->header + a->header_bytes;
  if (!at) fail_answer("a half message has no place", a);
  for (at += quoted_bytes; at < end && *at != '"' && length < VALUE_BYTES - 1; at++) value[length++] = *at;
  value[length] = 0;
}

/* Put the end of a transaction behind what a connection has still to send. */
static void make_end(struct peer* p, unsigned number, const struct answer* a) {
  struct slot* slot = &p->slots[number];
  const struct request* r = slot->request + 1;
  char id[VALUE_BYTES], log[VALUE_BYTES], queue[VALUE_BYTES], key[VALUE_BYTES];
  text_in(a, "msgId", id);
  text_in(a, "queueOffset", queue);
  text_in(a, "transactionId", key);
  if (strlen(id) != ID_DIGITS) fail_answer("a half message has an id of another length", a);
  snprintf(log, sizeof log, "%llu", strtoull(id + ID_DIGITS / 2, NULL, 16));
  char *frame = p->out + p->out_bytes, *to = frame;
  for (size_t at = 0; at < r->bytes; at++) {
    if (at == r->opaque_at) put_opaque(r->frame + at, next_opaque(slot, number));
    const char* value = NULL;
    if (at >= 8 && r->frame[at] == '@') {
      char kind = r->frame[++at];
      value = kind == 'L' ? log : kind == 'Q' ? queue : key;
    }
    if (value) to = stpcpy(to, value);
    else *to++ = r->frame[at];
  }
  put32(frame, (uint32_t)(to - frame - 4));
  put32(frame + 4, (uint32_t)(to - frame - 8));
  p->out_bytes += (size_t)(to - frame);
  slot->is_ending = 1;
}

static void push(struct peer* p) {
  while (p->out_at < p->out_bytes) {
    ssize_t sent = send(p->fd, p->out + p->out_at, p->out_bytes - p->out_at, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) fail("cannot send: %s", strerror(errno));
    if (sent < 0) break;
    p->out_at += (size_t)sent;
  }
  if (p->out_at == p->out_bytes) p->out_at = p->out_bytes = 0;
  int wants_write = p->out_bytes > 0;
  if (wants_write != p->wants_write) {
    struct epoll_event event = {.events = EPOLLIN | (wants_write ? EPOLLOUT : 0), .data.ptr = p};
    epoll_ctl(poll_fd, EPOLL_CTL_MOD, p->fd, &event);
    p->wants_write = wants_write;
  }
}

static void check_messages(const struct answer* a, const struct request* r) {
  long count = 0;
  for (size_t at = 0; at < a->body_bytes; count++) {
    size_t left = a->body_bytes - at, size = left < RECORD_HEAD_BYTES ? 0 : get32(a->body + at);
    if (size < RECORD_HEAD_BYTES || size > left || get32(a->body + at + 4) != RECORD_MAGIC)
      fail_answer("a pull brought what is no message", a);
    if (get64(a->body + at + 20) != (uint64_t)(r->queue_offset + count))
      fail_answer("a pull brought a message of another offset", a);
    at += size;
  }
  if (count != messages) {
    fprintf(stderr, "%ld messages instead of %ld from offset %ld; ", count, messages, r->queue_offset);
    fail_answer("a pull brought another number of messages", a);
  }
}

/* Take an answer, and let the next request of its slot follow. */
static void settle(struct peer* p, const struct answer* a, uint64_t now) {
  unsigned number = (unsigned)((a->opaque - OPAQUE_FIRST) % in_flight);
  struct slot* slot = &p->slots[number];
  if (a->opaque < OPAQUE_FIRST || !slot->request || slot->opaque + OPAQUE_FIRST != a->opaque)
    fail_answer("nobody asked", a);
  if (a->code == BUSY) {
    refused++;
  } else {
    if (a->code != 0) fail_answer("a request failed", a);
    if (frames_each > 1 && !slot->is_ending) {
      make_end(p, number, a);
      return;
    }
    if (messages > 0) check_messages(a, slot->request);
    answered++;
    count_latency(now - slot->sent_ns);
  }
  slot->request = NULL;
  on_way--;
  make_request(p, number, now);
}

static void serve(struct peer* p) {
  struct answer a;
  size_t at = 0;
  p->in_bytes += receive(p->fd, p->in, p->in_bytes);
  uint64_t now = now_ns();
  if (p->out_at) { /* room for what is made below */
    memmove(p->out, p->out + p->out_at, p->out_bytes -= p->out_at);
    p->out_at = 0;
  }
  for (; take_answer(p->in + at, p->in_bytes - at, &a); at += a.frame_bytes)
    settle(p, &a, now);
  memmove(p->in, p->in + at, p->in_bytes -= at);
}

static void open_peer(struct peer* p, char** argv) {
  p->fd = connect_to(argv[1], argv[2]);
  p->slots = calloc(in_flight, sizeof *p->slots);
  p->in = malloc(READ_BYTES);
  p->out = malloc((in_flight + 1) * frame_bytes_max);
  for (unsigned i = 0; i < in_flight; i++) p->slots[i].opaque = i;
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = p};
  epoll_ctl(poll_fd, EPOLL_CTL_ADD, p->fd, &event);
}

/* Answer events until a time, or until nothing is on its way. */
static uint64_t work_until(uint64_t end) {
  uint64_t now = now_ns();
  while (now < end && on_way) {
    struct epoll_event events[EVENTS_MAX];
    int ready = epoll_wait(poll_fd, events, EVENTS_MAX, STALL_MS);
    if (ready == 0) fail("no answer in %d s, %lu are missing", STALL_MS / 1000, on_way);
    for (int i = 0; i < ready; i++) {
      struct peer* p = events[i].data.ptr;
      if (events[i].events & ~(uint32_t)EPOLLOUT) serve(p);
      push(p);
    }
    now = now_ns();
  }
  return now;
}

int main(int argc, char** argv) {
  if (argc < 9) fail("broker_load HOST PORT CONNECTIONS IN_FLIGHT RAMP_S SECONDS MESSAGES PIDS [N]");
  unsigned connections = (unsigned)atoi(argv[3]);
  in_flight = (unsigned)atoi(argv[4]);
  double ramp_s = atof(argv[5]), seconds = atof(argv[6]);
  messages = atol(argv[7]);
  if (messages < 0) frames_each = 2;
  const char* pids = argv[8];
  if (argc > 9) to_make = strtoull(argv[9], NULL, 10);
  poll_fd = epoll_create1(0);
  read_requests();
  struct peer* peers = calloc(connections, sizeof *peers);
  for (unsigned i = 0; i < connections; i++) open_peer(&peers[i], argv);
  for (unsigned i = 0; i < connections; i++) {
    for (unsigned slot = 0; slot < in_flight; slot++) make_request(&peers[i], slot, now_ns());
    push(&peers[i]);
  }
  if (ramp_s > 0) work_until(now_ns() + (uint64_t)(ramp_s * 1e9));
  memset(histogram, 0, sizeof histogram);
  uint64_t before = answered, refused_before = refused, started = now_ns();
  struct cpu cpu = cpu_now(pids);
  uint64_t ended = work_until(started + (uint64_t)(seconds * 1e9));
  double elapsed_s = (double)(ended - started) / 1e9;
  uint64_t count = answered - before, refused_count = refused - refused_before;
  cpu = cpu_since(pids, cpu);
  double p50_us = percentile_us(0.50, count), p99_us = percentile_us(0.99, count);
  to_make = made;
  work_until(UINT64_MAX);
  printf("{\"seconds\":%f,\"answered\":%lu,\"refused\":%lu,\"answered_in_all\":%lu,\"p50_us\":%.1f,"
         "\"p99_us\":%.1f,\"server_cpu_s\":%.2f,\"generator_cpu_s\":%.3f,\"others_cpu_s\":%.2f}\n",
         elapsed_s, count, refused_count, answered, p50_us, p99_us, cpu.server_s, cpu.generator_s,
         cpu.others_s);
  return 0;
}
