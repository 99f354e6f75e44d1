/* Python's small objects on pages of 2 MiB.
 *
 * Python asks its system for arenas of 1 MiB, one by one, and never for large pages; kernels set to `madvise`, as
 * Debian's are, give them to those who ask only. Asking afterwards means that what is there is copied. Here arenas are
 * cut from aligned chunks that were asked for large pages before anything was written to them.
 *
 * Called by Python's allocator with the interpreter's lock held, or before there is a second thread.
 * Source: Python's C API, "Customize pymalloc Arena Allocator".
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if defined(__linux__)
#include <stdint.h>
#include <sys/mman.h>

#define LARGE ((size_t)2 << 20)
#define CHUNK ((size_t)32 << 20)

/* An arena given back: its pages are the system's again, but for the one that says which comes next. */
typedef struct Free {
    struct Free *next;
    size_t size;
} Free;

static Free *given_back;
static char *unused, *end;

static void *take(void *context, size_t size)
{
    (void)context;
    if (given_back != NULL && given_back->size == size) {
        Free *arena = given_back;
        given_back = arena->next;
        return arena;
    }
    if (size > CHUNK)
        return NULL;
    if (unused == NULL || (size_t)(end - unused) < size) {
        char *mapped = mmap(NULL, CHUNK + LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED)
            return NULL;
        unused = (char *)(((uintptr_t)mapped + LARGE - 1) & ~(uintptr_t)(LARGE - 1));
        end = unused + CHUNK;
        /* Advice: a kernel that gives no large pages says so, and nothing is lost. */
        (void)madvise(unused, CHUNK, MADV_HUGEPAGE);
    }
    char *arena = unused;
    unused += size;
    return arena;
}

static void give_back(void *context, void *address, size_t size)
{
    (void)context;
    (void)madvise(address, size, MADV_DONTNEED);
    Free *arena = address;
    arena->next = given_back;
    arena->size = size;
    given_back = arena;
}

static PyObject *on_large_pages(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    PyObjectArenaAllocator ours = {NULL, take, give_back};
    PyObject_SetArenaAllocator(&ours);
    Py_RETURN_TRUE;
}
#else
static PyObject *on_large_pages(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    Py_RETURN_FALSE;
}
#endif

static PyMethodDef methods[] = {
    {"on_large_pages", on_large_pages, METH_NOARGS,
     "Let what Python allocates from now on lie on pages of 2 MiB; whether this system has them."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "arenas", "Python's small objects on pages of 2 MiB.", -1, methods,
};

PyMODINIT_FUNC PyInit_arenas(void)
{
    return PyModule_Create(&definition);
}
