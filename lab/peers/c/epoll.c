/* One thread and level-triggered epoll(7) for all connections. See peer.h. */
#include "peer.h"
#include <sys/epoll.h>

enum { EVENTS = 512, BUFFER = 64 * 1024 };

/* Of a server's connection: what of an echo the socket did not take yet. Of a client's: its request, bytes of the reply, and
 * since when. */
struct connection {
    char *rest, *request;
    size_t length, got;
    uint64_t began;
};

static struct connection connections[DESCRIPTORS];
static struct histogram latencies;
static char *buffer;
static int poll_fd;

static void watch(int how, int fd, unsigned events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    if (epoll_ctl(poll_fd, how, fd, &event) < 0) die("epoll_ctl");
}

static void leave(int fd) {
    free(connections[fd].rest);
    connections[fd] = (struct connection){0};
    close(fd);
}

static void writes(int fd) {
    for (ssize_t n; (n = send(fd, buffer, asked.size, MSG_NOSIGNAL)) > 0;) counted((uint64_t)n);
    if (errno != EAGAIN) exit(0);
}

/* A receive that leaves room has emptied the socket. */
static void reads(int fd) {
    ssize_t n;
    do {
        n = recv(fd, buffer, asked.size, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN)) exit(0);
        if (n > 0) counted((uint64_t)n);
    } while (n == (ssize_t)asked.size);
}

static void flush(int fd) {
    struct connection *of = &connections[fd];
    ssize_t sent = send(fd, of->rest, of->length, MSG_NOSIGNAL);
    if (sent < 0) {
        if (errno != EAGAIN) leave(fd);
        return;
    }
    counted((uint64_t)sent);
    of->length -= (size_t)sent;
    memmove(of->rest, of->rest + sent, of->length);
    if (of->length > 0) return;
    free(of->rest);
    of->rest = NULL;
    watch(EPOLL_CTL_MOD, fd, EPOLLIN);
}

static void serves(int fd) {
    struct connection *of = &connections[fd];
    if (of->length) {
        flush(fd);
        return;
    }
    ssize_t got = recv(fd, buffer, SERVER_READ, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        leave(fd);
        return;
    }
    ssize_t sent = send(fd, buffer, (size_t)got, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
        leave(fd);
        return;
    }
    sent = sent < 0 ? 0 : sent;
    counted((uint64_t)sent);
    if (sent == got) return;
    of->length = (size_t)(got - sent);
    of->rest = malloc(of->length);
    if (!of->rest) die("malloc");
    memcpy(of->rest, buffer + sent, of->length);
    watch(EPOLL_CTL_MOD, fd, EPOLLOUT);
}

static void request(int fd) {
    if (send(fd, connections[fd].request, asked.size, MSG_NOSIGNAL) != (ssize_t)asked.size) die("send");
}

static void calls(int fd) {
    struct connection *of = &connections[fd];
    ssize_t n = recv(fd, buffer, BUFFER, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) exit(0);
    of->got += (size_t)n;
    if (of->got < asked.size) return;
    uint64_t ended = now_ns();
    recorded(&latencies, ended - of->began);
    of->got = 0;
    of->began = ended;
    counted(asked.size);
    request(fd);
}

static void accept_all(int listener) {
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (fd >= DESCRIPTORS) close(fd);
        else watch(EPOLL_CTL_ADD, fd, EPOLLIN);
    }
}

int main(int argc, char **argv) {
    arguments(argc, argv);
    buffer = memory(asked.size > BUFFER ? asked.size : BUFFER);
    poll_fd = epoll_create1(0);
    if (poll_fd < 0) die("epoll_create1");
    void (*ready)(int) = is_role("reader") ? reads : is_role("writer") ? writes : is_role("server") ? serves : calls;
    int listener = -1;
    if (is_role("server")) {
        listener = listening();
        no_waiting(listener);
        watch(EPOLL_CTL_ADD, listener, EPOLLIN);
    } else if (is_role("reader")) {
        int fd = accepted(listening());
        no_waiting(fd);
        watch(EPOLL_CTL_ADD, fd, EPOLLIN);
    } else {
        int fds[DESCRIPTORS];
        for (int i = 0; i < asked.connections; i++) {
            fds[i] = connected();
            no_waiting(fds[i]);
            watch(EPOLL_CTL_ADD, fds[i], is_role("writer") ? EPOLLOUT : EPOLLIN);
        }
        for (int i = 0; i < asked.connections && is_role("client"); i++) {
            connections[fds[i]].request = memory(asked.size);
            connections[fds[i]].began = now_ns();
            request(fds[i]);
        }
    }
    struct epoll_event events[EVENTS];
    for (;;) {
        int count = epoll_wait(poll_fd, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == listener) accept_all(listener);
            else ready(events[i].data.fd);
        }
    }
}
