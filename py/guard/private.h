/* Shared by the files of guard. */
#ifndef NXPY_GUARD_PRIVATE_H
#define NXPY_GUARD_PRIVATE_H

#include "guard/guard.h"

/* Whether one row holds; fetches fill their slot and hold unless the parent cannot be read. */
bool nx__guard_row_holds(nxpy_row *row, PyObject *const *roots, PyObject **values);

/* Whether a dimension that is not as it was may be so. */
bool nx__tensor_fits(const nxpy_tensor_like *like, const nx_array *a, int dim);

#endif
