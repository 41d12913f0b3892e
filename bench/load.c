/* The load generator's inner loop: prepared frames out, answers counted, latencies in a histogram.
 *
 *   load HOST PORT CONNECTIONS IN_FLIGHT SECONDS FRAME_BYTES ANSWER_BYTES < frames
 *
 * Standard input has IN_FLIGHT frames of equal length; every answer has the same length, too, so
 * that counting answers is counting bytes. One epoll thread. Prints one line:
 *
 *   answered seconds p50_us p99_us cpu_seconds
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 18, EVENTS_MAX = 256, BUCKETS = 1 << 20 };

struct peer {
  int fd;
  size_t pending_bytes; /* of an answer that has not come whole */
  size_t unsent_bytes;  /* of frames that the socket did not take yet */
  size_t block_at;      /* where in the block of frames sending goes on */
  uint64_t* sent_ns;    /* a ring: when each request in flight was sent */
  unsigned oldest;
};

static uint64_t histogram[BUCKETS]; /* 100 ns each; the last one holds all that is slower */
static char buffer[READ_BYTES];
static char* block;
static size_t block_bytes, frame_bytes, answer_bytes;
static unsigned in_flight;

static void fail(const char* what) {
  fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
  exit(1);
}

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void push(struct peer* p) {
  while (p->unsent_bytes) {
    size_t piece = block_bytes - p->block_at;
    if (piece > p->unsent_bytes) piece = p->unsent_bytes;
    ssize_t sent = send(p->fd, block + p->block_at, piece, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EAGAIN) return; /* the answers that make room will wake us */
      fail("send");
    }
    p->unsent_bytes -= (size_t)sent;
    p->block_at = (p->block_at + (size_t)sent) % block_bytes;
  }
}

static unsigned receive(struct peer* p) {
  ssize_t got = recv(p->fd, buffer, sizeof buffer, 0);
  if (got == 0) {
    fprintf(stderr, "load: the server closed a connection\n");
    exit(1);
  }
  if (got < 0) {
    if (errno == EAGAIN) return 0;
    fail("recv");
  }
  p->pending_bytes += (size_t)got;
  unsigned answers = (unsigned)(p->pending_bytes / answer_bytes);
  p->pending_bytes %= answer_bytes;
  return answers;
}

static void account(struct peer* p, unsigned answers, uint64_t now) {
  for (unsigned i = 0; i < answers; i++) {
    uint64_t bucket = (now - p->sent_ns[p->oldest]) / 100;
    histogram[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
    p->sent_ns[p->oldest] = now;
    p->oldest = (p->oldest + 1) % in_flight;
  }
  p->unsent_bytes += answers * frame_bytes;
}

static double percentile_us(double share, uint64_t count) {
  uint64_t wanted = (uint64_t)(share * (double)count), seen = 0;
  for (int i = 0; i < BUCKETS; i++) {
    seen += histogram[i];
    if (seen > wanted) return i / 10.0;
  }
  return BUCKETS / 10.0;
}

static void connect_peer(struct peer* p, const char* host, int port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  int on = 1;
  inet_pton(AF_INET, host, &to.sin_addr);
  p->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (p->fd < 0 || connect(p->fd, (struct sockaddr*)&to, sizeof to)) fail("connect");
  setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(p->fd, F_SETFL, O_NONBLOCK);
  p->sent_ns = calloc(in_flight, sizeof *p->sent_ns);
  p->unsent_bytes = in_flight * frame_bytes;
}

int main(int argc, char** argv) {
  if (argc != 8) {
    fprintf(stderr, "usage: load HOST PORT CONNECTIONS IN_FLIGHT SECONDS FRAME ANSWER < frames\n");
    return 2;
  }
  int connections = atoi(argv[3]), poll = epoll_create1(0);
  in_flight = (unsigned)atoi(argv[4]);
  double seconds = atof(argv[5]);
  frame_bytes = (size_t)atol(argv[6]);
  answer_bytes = (size_t)atol(argv[7]);
  block_bytes = frame_bytes * in_flight;
  block = malloc(block_bytes);
  if (fread(block, 1, block_bytes, stdin) != block_bytes) fail("frames");
  struct peer* peers = calloc((size_t)connections, sizeof *peers);
  for (int i = 0; i < connections; i++) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &peers[i]};
    connect_peer(&peers[i], argv[1], atoi(argv[2]));
    epoll_ctl(poll, EPOLL_CTL_ADD, peers[i].fd, &event);
  }
  uint64_t started = now_ns(), end = started + (uint64_t)(seconds * 1e9), now = started;
  uint64_t answered = 0;
  for (int i = 0; i < connections; i++) {
    for (unsigned slot = 0; slot < in_flight; slot++) peers[i].sent_ns[slot] = started;
    push(&peers[i]);
  }
  while (now < end) {
    struct epoll_event events[EVENTS_MAX];
    int ready = epoll_wait(poll, events, EVENTS_MAX, 1000);
    for (int i = 0; i < ready; i++) {
      struct peer* p = events[i].data.ptr;
      unsigned answers = receive(p);
      now = now_ns();
      account(p, answers, now);
      answered += answers;
      push(p);
    }
    now = now_ns();
  }
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
  printf("%lu %f %f %f %f\n", (unsigned long)answered, (double)(now - started) / 1e9,
         percentile_us(0.50, answered), percentile_us(0.99, answered), cpu);
  return 0;
}
