// The upstream that the bench puts behind every proxy: HTTP/1.1 keep-alive, one thread, epoll.
//   backend PORT
// GET /bytes/N answers N bytes, any other target 100. A request body (Content-Length) is read to its end first.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { IN = 64 << 10, FILLER = 1 << 20 };

struct conn {
    int fd, blocked;
    long long body;             // request body bytes still to read; -1 while the head is incomplete
    size_t have;                // bytes held in `in`
    char head[128];             // the answer's head
    size_t head_len, head_sent;
    long long reply;            // answer body bytes still to write
    char in[IN];
};

static int ep;
static char *filler;

static void watch(struct conn *c, int op, int events) {
    struct epoll_event e = {.events = events, .data.ptr = c};
    epoll_ctl(ep, op, c->fd, &e);
}

// Writes what is left of the answer: 1 when all is written, 0 when the socket is full, -1 when it is gone.
static int write_answer(struct conn *c) {
    while (c->head_sent < c->head_len || c->reply > 0) {
        struct iovec v[2] = {
            {c->head + c->head_sent, c->head_len - c->head_sent},
            {filler, c->reply < FILLER ? c->reply : FILLER},
        };
        struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
        ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL);
        if (n < 0) return errno == EAGAIN ? 0 : -1;
        size_t of_head = (size_t)n < v[0].iov_len ? (size_t)n : v[0].iov_len;
        c->head_sent += of_head;
        c->reply -= n - of_head;
    }
    return 1;
}

// Reads the head at the start of `in`. Its length, 0 when it is incomplete, -1 when this backend cannot read it.
static long read_head(struct conn *c) {
    c->in[c->have] = 0;
    char *end = memmem(c->in, c->have, "\r\n\r\n", 4);
    if (!end) return 0;
    c->body = 0;
    char *target = memchr(c->in, ' ', end - c->in);
    c->reply = target && !strncmp(target + 1, "/bytes/", 7) ? atoll(target + 8) : 100;
    for (char *line = c->in; line && line < end; line = memchr(line, '\n', end - line)) {
        if (*line == '\n') line++;
        if (!strncasecmp(line, "content-length:", 15)) c->body = atoll(line + 15);
        if (!strncasecmp(line, "transfer-encoding:", 18)) return -1;
    }
    return end + 4 - c->in;
}

// Uses what is held: 0 to go on reading, -1 to close.
static int advance(struct conn *c) {
    for (;;) {
        if (c->body < 0) {
            long n = read_head(c);
            if (n < 0 || (n == 0 && c->have >= IN - 1)) return -1;
            if (n == 0) return 0;
            memmove(c->in, c->in + n, c->have -= n);
        }
        size_t n = (long long)c->have < c->body ? c->have : (size_t)c->body;
        c->body -= n;
        memmove(c->in, c->in + n, c->have -= n);
        if (c->body > 0) return 0;
        c->head_len = sprintf(c->head, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %lld\r\n\r\n", c->reply);
        c->head_sent = 0;
        c->body = -1;
        int done = write_answer(c);
        if (done < 0) return -1;
        if (done == 0) {
            c->blocked = 1;
            watch(c, EPOLL_CTL_MOD, EPOLLOUT);
            return 0;
        }
    }
}

static int on_event(struct conn *c) {
    if (c->blocked) {
        int done = write_answer(c);
        if (done <= 0) return done;
        c->blocked = 0;
        watch(c, EPOLL_CTL_MOD, EPOLLIN);
        return advance(c);
    }
    ssize_t n = recv(c->fd, c->in + c->have, IN - 1 - c->have, 0);
    if (n < 0 && errno == EAGAIN) return 0;
    if (n <= 0) return -1;
    c->have += n;
    return advance(c);
}

static void accept_all(int listener) {
    int fd, one = 1;
    while ((fd = accept4(listener, 0, 0, SOCK_NONBLOCK)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct conn *c = calloc(1, sizeof *c);
        c->fd = fd;
        c->body = -1;
        watch(c, EPOLL_CTL_ADD, EPOLLIN);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: backend PORT\n"), 2;
    signal(SIGPIPE, SIG_IGN);
    filler = malloc(FILLER);
    memset(filler, 'x', FILLER);
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (void *)&at, sizeof at) || listen(listener, 4096)) return perror("backend"), 1;
    ep = epoll_create1(0);
    struct epoll_event events[256], e = {.events = EPOLLIN, .data.ptr = 0};
    epoll_ctl(ep, EPOLL_CTL_ADD, listener, &e);
    for (;;) {
        int n = epoll_wait(ep, events, 256, -1);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (!c) accept_all(listener);
            else if (on_event(c) < 0) close(c->fd), free(c);
        }
    }
}
