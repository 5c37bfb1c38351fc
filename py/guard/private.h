/* Shared by the files of guard. */
#ifndef NXPY_GUARD_PRIVATE_H
#define NXPY_GUARD_PRIVATE_H

#include "guard/guard.h"

/* Whether one row holds; fetches fill their slot and hold unless the parent cannot be read. */
bool nx__guard_row_holds(nxpy_row *row, PyObject *const *roots, PyObject **values);

#endif
