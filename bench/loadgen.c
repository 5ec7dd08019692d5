// A closed-loop HTTP/1.1 load generator: every connection sends its next request when its last is answered.
//   loadgen PORT [-c connections] [-t seconds] [-n requests] [-p target] [-b body bytes] [-k keys] [-h hot] [-a] [-s seed] [-i idle]
// -k draws the header x-key, 16 hex digits, out of so many ids for each request; -b makes it a POST with such a body.
// -h N gives half of the requests one of N further ids; the denials of each are printed as "hot", by id, and "history" has
// their totals ten times a second, each behind its time on the monotonic clock.
// -a takes the ids of -k in turn instead of at random, and goes on after -t seconds until each has been sent.
// -i N opens N connections instead, makes one request on each, prints `ready`, and holds them until standard input ends.
// After -t seconds or -n requests no request begins; those under way are finished, so every one is counted whole.
// Prints one JSON object. An answer must carry Content-Length; one that does not is counted as failed.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 256 << 10, HEAD = 4096, GRACE_SECS = 10, MOST_HOT = 16 };

struct conn {
    int fd, blocked, busy, closing, status;
    int hot;                    // number of its hot id, or -1
    size_t sent;                // request head bytes written
    long long body_left;        // request body bytes still to write
    long long answer_left;      // answer body bytes still to read; -1 while its head is incomplete
    size_t have;
    char head[HEAD], request[512];
};

static struct sockaddr_in proxy = {.sin_family = AF_INET};
static int ep;
static char request[512], *buffer;
static size_t request_len;
static int key_at;
static long long body, keys;
static int hot;
static uint64_t hot_denied[MOST_HOT];
static int all_ids;
static uint64_t in_turn;        // ids sent with -a
static struct sample { double at; uint64_t hot[MOST_HOT]; } *history;
static size_t samples, room;
static uint64_t seed = 88172645463325252ull, issued, answered, ok, denied, failed, reconnects;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void watch(struct conn *c, int op, int events) {
    struct epoll_event e = {.events = events, .data.ptr = c};
    epoll_ctl(ep, op, c->fd, &e);
}

static int dial(void) {
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (void *)&proxy, sizeof proxy)) perror("loadgen: connect"), exit(1);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void redial(struct conn *c) {
    if (c->fd > 0) close(c->fd), reconnects++;
    c->fd = dial();
    c->busy = c->blocked = 0;
    watch(c, EPOLL_CTL_ADD, EPOLLIN);
}

static void write_key(char *at, uint64_t number) {
    uint64_t id = number * 0x9E3779B97F4A7C15ull;
    for (int i = 0; i < 16; i++) at[i] = "0123456789abcdef"[id >> (60 - 4 * i) & 15];
}

// Hot ids have the numbers after the others.
static void draw_key(struct conn *c) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    c->hot = hot && seed >> 63 ? (int)((seed >> 32 & 0x7fffffff) % hot) : -1;
    uint64_t number = c->hot >= 0 ? (uint64_t)(keys + 1 + c->hot) : (all_ids ? in_turn++ : seed) % keys + 1;
    write_key(c->request + key_at, number);
}

// Keeps the totals of the hot ids, at most ten times a second unless `last`.
static void take_sample(double t, int last) {
    if (!hot || (!last && samples && t < history[samples - 1].at + 0.1)) return;
    if (samples == room && !(history = realloc(history, (room = room ? 2 * room : 1024) * sizeof *history))) exit(1);
    history[samples].at = t;
    memcpy(history[samples++].hot, hot_denied, sizeof hot_denied);
}

// Writes what is left of the request: -1 when the connection is gone.
static int write_request(struct conn *c) {
    while (c->sent < request_len || c->body_left > 0) {
        struct iovec v[2] = {
            {c->request + c->sent, request_len - c->sent},
            {buffer, c->body_left < BUFFER ? c->body_left : BUFFER},
        };
        struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
        ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN) return -1;
        if (n < 0) {
            if (!c->blocked) c->blocked = 1, watch(c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
            return 0;
        }
        size_t of_head = (size_t)n < v[0].iov_len ? (size_t)n : v[0].iov_len;
        c->sent += of_head;
        c->body_left -= n - of_head;
    }
    if (c->blocked) c->blocked = 0, watch(c, EPOLL_CTL_MOD, EPOLLIN);
    return 0;
}

static int begin(struct conn *c) {
    c->hot = -1;
    if (keys) draw_key(c);
    c->sent = c->have = c->closing = 0;
    c->body_left = body;
    c->answer_left = -1;
    c->busy = 1;
    issued++;
    return write_request(c);
}

static int read_head(struct conn *c, char *end) {
    if (sscanf(c->head, "HTTP/1.%*d %d", &c->status) != 1) return -1;
    for (char *line = memchr(c->head, '\n', HEAD); line < end; line = memchr(line, '\n', end + 4 - line)) {
        line++;
        if (!strncasecmp(line, "content-length:", 15)) c->answer_left = atoll(line + 15);
        if (!strncasecmp(line, "connection: close", 17)) c->closing = 1;
    }
    return c->answer_left < 0 ? -1 : 0;
}

// Takes what has arrived: 1 when the answer is complete, 0 when not yet, -1 when the connection or the answer is bad.
static int read_answer(struct conn *c) {
    ssize_t n = recv(c->fd, buffer, BUFFER, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return 0;
    if (n <= 0 || !c->busy) return -1;
    if (c->answer_left < 0) {
        size_t take = (size_t)n < HEAD - 1 - c->have ? (size_t)n : HEAD - 1 - c->have;
        memcpy(c->head + c->have, buffer, take);
        c->head[c->have + take] = 0;
        char *end = memmem(c->head, c->have + take, "\r\n\r\n", 4);
        if (!end) return c->have += take, c->have == HEAD - 1 ? -1 : 0;
        if (read_head(c, end) < 0) return -1;
        n -= end + 4 - c->head - c->have;
    }
    c->answer_left -= n;
    return c->answer_left > 0 ? 0 : c->answer_left == 0 ? 1 : -1;
}

static void on_event(struct conn *c, int events) {
    int done = events & EPOLLOUT && write_request(c) < 0 ? -1 : read_answer(c);
    if (done == 0) return;
    if (done < 0 && c->busy) failed++;
    if (done > 0) answered++, *(c->status / 100 == 2 ? &ok : c->status == 429 ? &denied : &failed) += 1;
    if (done > 0 && c->status == 429 && c->hot >= 0) hot_denied[c->hot]++;
    c->busy = 0;
    if (done < 0 || c->closing || c->body_left > 0) redial(c);
}

static void hold_idle(int count) {
    for (int i = 0; i < count; i++) {
        struct conn c = {.fd = dial()};
        memcpy(c.request, request, sizeof request);
        int done = begin(&c) < 0 ? -1 : 0;
        while (done == 0) done = recv(c.fd, buffer, 1, MSG_PEEK) > 0 ? read_answer(&c) : -1;
        if (done < 0 || c.status != 200 || c.closing) fprintf(stderr, "loadgen: idle connection %d was not kept\n", i), exit(1);
    }
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {}
}

static double drive(int count, double secs, uint64_t limit) {
    struct conn *all = calloc(count, sizeof *all);
    for (int i = 0; i < count; i++) memcpy(all[i].request, request, sizeof request), redial(all + i);
    double start = now(), t = start, ended = start;
    struct epoll_event events[256];
    for (int i = 0; i < count && issued < limit; i++) begin(all + i);
    for (;;) {
        t = now();
        int under_way = 0, more = issued < limit && (t < start + secs || (all_ids && in_turn < (uint64_t)keys));
        for (int i = 0; !under_way && i < count; i++) under_way = all[i].busy;
        if (more) ended = t;
        if (!more && (!under_way || t > ended + GRACE_SECS)) break;
        take_sample(t, 0);
        int n = epoll_wait(ep, events, 256, 20);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            on_event(c, events[i].events);
            while (!c->busy && more && issued < limit && begin(c) < 0) failed++, redial(c);
        }
    }
    for (int i = 0; i < count; i++) failed += all[i].busy;
    take_sample(t, 1);
    return t - start;
}

int main(int argc, char **argv) {
    int count = 64, idle = 0, option;
    double secs = 1e9;
    uint64_t limit = UINT64_MAX;
    const char *target = "/";
    while ((option = getopt(argc, argv, "c:t:n:p:b:k:h:as:i:")) != -1) switch (option) {
        case 'c': count = atoi(optarg); break;
        case 't': secs = atof(optarg); break;
        case 'n': limit = strtoull(optarg, 0, 10); break;
        case 'p': target = optarg; break;
        case 'b': body = atoll(optarg); break;
        case 'k': keys = atoll(optarg); break;
        case 'h': hot = atoi(optarg); break;
        case 'a': all_ids = 1; break;
        case 's': seed ^= strtoull(optarg, 0, 10) * 0x9E3779B97F4A7C15ull; break;
        case 'i': idle = atoi(optarg); break;
        default: return 2;
    }
    if (hot < 0 || hot > MOST_HOT || (hot && !keys)) return fprintf(stderr, "loadgen: -h takes up to %d, with -k\n", MOST_HOT), 2;
    if (optind != argc - 1) return fprintf(stderr, "usage: loadgen PORT [options]\n"), 2;
    proxy.sin_port = htons(atoi(argv[optind]));
    proxy.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    buffer = calloc(1, BUFFER);
    char length[64] = "";
    if (body) sprintf(length, "Content-Length: %lld\r\n", body);
    request_len = snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\n%sx-key: %n0000000000000000\r\n\r\n",
                           body ? "POST" : "GET", target, argv[optind], length, &key_at);
    if (request_len >= sizeof request) return fprintf(stderr, "loadgen: the target is too long\n"), 2;
    if (idle) return hold_idle(idle), 0;
    ep = epoll_create1(0);
    double took = drive(count, secs, limit);
    printf("{\"requests\": %lu, \"secs\": %.4f, \"ok\": %lu, \"denied\": %lu, \"failed\": %lu, \"reconnects\": %lu", answered, took, ok, denied, failed, reconnects);
    char id[17] = "";
    for (int i = 0; i < hot; i++) write_key(id, keys + 1 + i), printf("%s\"%s\": %lu", i ? ", " : ", \"hot\": {", id, hot_denied[i]);
    if (hot) printf("}, \"ids\": %lu, \"history\": [", in_turn < (uint64_t)keys ? in_turn : (uint64_t)keys);
    for (size_t at = 0; at < samples; at++) {
        printf("%s[%.4f", at ? ", " : "", history[at].at);
        for (int i = 0; i < hot; i++) printf(", %lu", history[at].hot[i]);
        putchar(']');
    }
    puts(hot ? "]}" : "}");
    return 0;
}
