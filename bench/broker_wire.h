/* What both generators of load on a broker need: frames in and out, time, CPU, a histogram. */
#ifndef BROKER_WIRE_H
#define BROKER_WIRE_H
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
  READ_BYTES = 1 << 19,      /* an answer has a quarter of a MiB at most: Java's bound of a pull */
  SUB_BITS = 8,
  SUB_BUCKETS = 1 << SUB_BITS, /* half of them for each power of two: exact to one in a hundred */
  BUCKETS = 64 * SUB_BUCKETS,
  OPAQUE_DIGITS = 9,
  OPAQUE_FIRST = 100000000,  /* every opaque has nine digits, so that frames keep their length */
  OPAQUES = 800000000,
  EVENTS_MAX = 256,
  STALL_MS = 10000,
  PIDS_MAX = 16,
  RECORD_HEAD_BYTES = 88, /* of a stored message, with hosts of IPv4, up to its body */
  BUSY = 2,               /* the code of a broker that refuses work for a while */
};
#define RECORD_MAGIC 0xDAA320A7u

/* An answer as it lies in a buffer. */
struct answer {
  const char *header, *body;
  size_t header_bytes, body_bytes, frame_bytes;
  long code, opaque;
};

struct input {
  char* data;
  size_t bytes;
};

static uint64_t histogram[BUCKETS]; /* of tenths of microseconds */

__attribute__((format(printf, 1, 2))) static void fail(const char* format, ...) {
  va_list values;
  va_start(values, format);
  vfprintf(stderr, format, values);
  va_end(values);
  fputc('\n', stderr);
  exit(1);
}

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t get32(const char* at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return ntohl(value);
}

static void put32(char* at, uint32_t value) {
  value = htonl(value);
  memcpy(at, &value, sizeof value);
}

static uint64_t get64(const char* at) {
  return (uint64_t)get32(at) << 32 | get32(at + 4);
}

static void put_opaque(char* at, uint32_t opaque) {
  for (int i = OPAQUE_DIGITS - 1; i >= 0; i--, opaque /= 10) at[i] = (char)('0' + opaque % 10);
}

static void count_latency(uint64_t ns) {
  uint64_t tenths = ns / 100;
  int power = tenths < SUB_BUCKETS ? 0 : 64 - __builtin_clzll(tenths) - SUB_BITS;
  histogram[(uint64_t)power * (SUB_BUCKETS / 2) + (tenths >> power)]++;
}

static double percentile_us(double share, uint64_t count) {
  uint64_t wanted = (uint64_t)(share * (double)count), seen = 0;
  for (uint64_t i = 0; i < BUCKETS; i++) {
    seen += histogram[i];
    if (seen > wanted) {
      uint64_t power = i < SUB_BUCKETS ? 0 : i / (SUB_BUCKETS / 2) - 1;
      return (double)((i - power * (SUB_BUCKETS / 2)) << power) / 10.0;
    }
  }
  return 0;
}

/* CPU seconds that the processes "1,2,3" have used so far. */
static double processes_cpu_s(const char* pids) {
  char text[1024];
  double ticks = 0;
  for (const char* at = pids; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
    snprintf(text, sizeof text, "/proc/%d/stat", atoi(at));
    FILE* file = fopen(text, "r");
    size_t got = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (!got) fail("process %d of the server is gone", atoi(at));
    fclose(file);
    text[got] = 0;
    long user, system;
    if (sscanf(strrchr(text, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user,
               &system) != 2)
      fail("cannot read the CPU time of process %d", atoi(at));
    ticks += (double)(user + system);
  }
  return ticks / (double)sysconf(_SC_CLK_TCK);
}

/* CPU seconds that all processes have used, and those that the host took for others. */
static double machine_cpu_s(void) {
  double user, nice, system, idle, wait, irq, soft, stolen;
  FILE* file = fopen("/proc/stat", "r");
  if (!file || fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system, &idle,
                      &wait, &irq, &soft, &stolen) != 8)
    fail("cannot read /proc/stat");
  fclose(file);
  return (user + nice + system + irq + soft + stolen) / (double)sysconf(_SC_CLK_TCK);
}

static double own_cpu_s(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/* CPU seconds since some time: of the broker, of this process, of all others. */
struct cpu {
  double server_s, generator_s, others_s;
};

static struct cpu cpu_now(const char* pids) {
  struct cpu now = {processes_cpu_s(pids), own_cpu_s(), 0};
  now.others_s = machine_cpu_s() - now.server_s - now.generator_s;
  return now;
}

static struct cpu cpu_since(const char* pids, struct cpu before) {
  struct cpu now = cpu_now(pids);
  return (struct cpu){now.server_s - before.server_s, now.generator_s - before.generator_s,
                      now.others_s - before.others_s};
}

static int connect_to(const char* host, const char* port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
  int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
  inet_pton(AF_INET, host, &to.sin_addr);
  if (fd < 0 || connect(fd, (struct sockaddr*)&to, sizeof to))
    fail("cannot connect to %s:%s: %s", host, port, strerror(errno));
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  return fd;
}

/* Standard input to its end. */
static struct input read_input(void) {
  struct input all = {malloc(READ_BYTES), 0};
  size_t room = READ_BYTES, got;
  while ((got = fread(all.data + all.bytes, 1, room - all.bytes, stdin)) > 0) {
    all.bytes += got;
    if (all.bytes == room) all.data = realloc(all.data, room *= 2);
  }
  return all;
}

/* The number behind `"name":` or `"name":"` in a JSON header; `missing` if there is none. */
static long number_in(const char* header, size_t bytes, const char* name, long missing) {
  char quoted[64];
  size_t quoted_bytes = (size_t)snprintf(quoted, sizeof quoted, "\"%s\":", name);
  const char* at = memmem(header, bytes, quoted, quoted_bytes);
  if (!at) return missing;
  at += quoted_bytes;
  return strtol(at + (*at == '"'), NULL, 10);
}

/* Take the first whole answer of a buffer; 0 if it is not there yet. */
static int take_answer(const char* data, size_t bytes, struct answer* found) {
  if (bytes < 8) return 0;
  found->frame_bytes = 4 + (size_t)get32(data);
  if (found->frame_bytes > READ_BYTES) fail("an answer of %zu bytes", found->frame_bytes);
  if (bytes < found->frame_bytes) return 0;
  found->header_bytes = get32(data + 4) & 0xFFFFFF;
  found->header = data + 8;
  if (data[4] != 0) fail("the broker answered with a compact header; the load speaks JSON");
  if (8 + found->header_bytes > found->frame_bytes) fail("an answer's header exceeds its frame");
  found->body = found->header + found->header_bytes;
  found->body_bytes = found->frame_bytes - 8 - found->header_bytes;
  found->code = number_in(found->header, found->header_bytes, "code", -1);
  found->opaque = number_in(found->header, found->header_bytes, "opaque", -1);
  return 1;
}

static void fail_answer(const char* what, const struct answer* a) {
  fail("%s: the broker answered %.*s", what, (int)a->header_bytes, a->header);
}

/* Receive behind what a buffer of READ_BYTES has already; how much came. */
static size_t receive(int fd, char* buffer, size_t pending_bytes) {
  ssize_t got = recv(fd, buffer + pending_bytes, READ_BYTES - pending_bytes, 0);
  if (got == 0) fail("the broker closed a connection");
  if (got < 0 && errno != EAGAIN) fail("cannot receive: %s", strerror(errno));
  return got < 0 ? 0 : (size_t)got;
}
#endif
