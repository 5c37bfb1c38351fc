/* The characters of a .nx text, for parse.c and parse_value.c. */
#ifndef NX_IR_READ_H
#define NX_IR_READ_H

#include "ir/private.h"

typedef struct nx__reader {
    const char *at, *line_start;
    int line;
    nx_graph *graph;
    int depth;              /* of lists being read */
} nx__reader;

enum { NX__MAX_WORD = 256 };
typedef struct nx__word { char at[NX__MAX_WORD]; } nx__word;

nx_status nx__read_error(const nx__reader *r, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void nx__skip_spaces(nx__reader *r);                    /* not newlines */
bool nx__accept(nx__reader *r, char c);                 /* after spaces */
nx_status nx__expect(nx__reader *r, char c);
bool nx__peek_word(const nx__reader *r);
nx_status nx__read_word(nx__reader *r, bool dots, nx__word *out); /* dots: "torch.add", "aten::add.Tensor" */
nx_status nx__read_int(nx__reader *r, int64_t *out);
nx_status nx__read_string(nx__reader *r, char **out);   /* the caller's */
nx_status nx__read_ints(nx__reader *r, char close, int64_t *out, int room,
                        int *n); /* behind the opening bracket */
nx_status nx__read_device(nx__reader *r, nx_device *out);
nx_status nx__read_value(nx__reader *r, nx_value *out); /* kept: nx_value_drop() */
nx_status nx__read_type(nx__reader *r, nx_tensor **out);
nx_status nx__read_constant(nx__reader *r, const nx_tensor *fake, nx_tensor **out);

#endif
