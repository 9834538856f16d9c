/* A plain io_uring echo server on liburing: one ring, multishot accept, multishot receive with a provided buffer
 * ring, one send a message. Prints where it listens. A peer to compare with; it shares no code with bytegauge.
 * Echoes of a connection keep their order only as long as its client waits for each reply. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <liburing.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ENTRIES = 1024, BUFFERS = 4096, SIZE = 4096, GROUP = 1 };
enum kind { ACCEPT, RECEIVE, SEND };

static struct io_uring ring;
static struct io_uring_buf_ring *provided;
static char *memory;

static void die(const char *what, int error) {
    fprintf(stderr, "%s: %s\n", what, strerror(error < 0 ? -error : error));
    exit(1);
}

/* The kind, the buffer and the descriptor of a request. */
static unsigned long long tag(enum kind kind, unsigned buffer, int fd) {
    return (unsigned long long)kind << 56 | (unsigned long long)buffer << 32 | (unsigned)fd;
}

static struct io_uring_sqe *entry(void) {
    struct io_uring_sqe *sqe;
    while (!(sqe = io_uring_get_sqe(&ring))) io_uring_submit(&ring);
    return sqe;
}

static void accept_more(int listener) {
    struct io_uring_sqe *sqe = entry();
    io_uring_prep_multishot_accept(sqe, listener, NULL, NULL, 0);
    io_uring_sqe_set_data64(sqe, tag(ACCEPT, 0, listener));
}

static void receive(int fd) {
    struct io_uring_sqe *sqe = entry();
    io_uring_prep_recv_multishot(sqe, fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = GROUP;
    io_uring_sqe_set_data64(sqe, tag(RECEIVE, 0, fd));
}

static void give_back(unsigned buffer) {
    io_uring_buf_ring_add(provided, memory + (size_t)buffer * SIZE, SIZE, (unsigned short)buffer,
                          io_uring_buf_ring_mask(BUFFERS), 0);
    io_uring_buf_ring_advance(provided, 1);
}

static void received(const struct io_uring_cqe *cqe, int fd) {
    if (cqe->res > 0) {
        unsigned buffer = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
        struct io_uring_sqe *sqe = entry();
        io_uring_prep_send(sqe, fd, memory + (size_t)buffer * SIZE, (size_t)cqe->res, MSG_WAITALL | MSG_NOSIGNAL);
        io_uring_sqe_set_data64(sqe, tag(SEND, buffer, fd));
    } else if (cqe->res != -ENOBUFS) {
        close(fd);
        return;
    }
    if (!(cqe->flags & IORING_CQE_F_MORE)) receive(fd);
}

int main(void) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1, error;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0) die("bind", errno);
    if (listen(listener, 4096) < 0) die("listen", errno);
    struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                              IORING_SETUP_CQSIZE, .cq_entries = 2 * BUFFERS};
    if ((error = io_uring_queue_init_params(ENTRIES, &ring, &params)) < 0) die("io_uring_queue_init", error);
    provided = aligned_alloc(4096, BUFFERS * sizeof(struct io_uring_buf));
    memory = aligned_alloc(4096, (size_t)BUFFERS * SIZE);
    if (!provided || !memory) die("aligned_alloc", ENOMEM);
    struct io_uring_buf_reg registered = {.ring_addr = (unsigned long)provided, .ring_entries = BUFFERS,
                                          .bgid = GROUP};
    if ((error = io_uring_register_buf_ring(&ring, &registered, 0)) < 0) die("io_uring_register_buf_ring", error);
    io_uring_buf_ring_init(provided);
    for (unsigned i = 0; i < BUFFERS; i++) give_back(i);
    accept_more(listener);
    socklen_t length = sizeof address;
    if (getsockname(listener, (struct sockaddr *)&address, &length) < 0) die("getsockname", errno);
    printf("listening on 127.0.0.1:%u\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        io_uring_submit_and_wait(&ring, 1);
        struct io_uring_cqe *cqe;
        unsigned head, taken = 0;
        io_uring_for_each_cqe(&ring, head, cqe) {
            taken++;
            unsigned long long data = io_uring_cqe_get_data64(cqe);
            int fd = (int)(data & 0xffffffff);
            switch ((enum kind)(data >> 56)) {
            case ACCEPT:
                if (cqe->res >= 0) receive(cqe->res);
                if (!(cqe->flags & IORING_CQE_F_MORE)) accept_more(fd);
                break;
            case RECEIVE:
                received(cqe, fd);
                break;
            case SEND:
                give_back((unsigned)(data >> 32 & 0xffffff));
                break;
            }
        }
        io_uring_cq_advance(&ring, taken);
    }
}
