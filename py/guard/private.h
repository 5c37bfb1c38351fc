/* Shared by the files of guard. */
#ifndef NXPY_GUARD_PRIVATE_H
#define NXPY_GUARD_PRIVATE_H

#include "guard/guard.h"

/* Whether one row holds; fetches fill their slot and hold unless the parent cannot be read. */
bool nxpy__guard_row_holds(nxpy_row *row, PyObject *const *roots, PyObject **values);

/* What an array says of itself beside its dims, as one number: element type, dimensions, contiguous, device. */
static inline uint64_t nxpy__array_head(const nx_array *a) {
    uint64_t head;
    memcpy(&head, (const char *)a + offsetof(nx_array, dtype), sizeof head);
    return head;
}
_Static_assert(sizeof(nx_array) - offsetof(nx_array, dtype) == sizeof(uint64_t), "the head ends with the array");

/* Nothing is added to the guards any more. */
void nxpy__guards_remove(nxpy_guards *guards, int row);
void nxpy__guard_steps_free(nxpy_guards *guards);

/* Whether a dimension that is not as it was may be so. */
bool nxpy__tensor_fits(const nxpy_tensor_like *like, const nx_array *a, int dim);
int nxpy__new_mark(const nxpy_tensor_like *like, PyObject *tensor); /* the first that says more than it did, or -1 */

#endif
