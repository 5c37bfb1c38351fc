/* What reads the text of a program (parse.c) and of its tile programs (parse_tile.c). */
#ifndef NX_ENGINE_PARSE_H
#define NX_ENGINE_PARSE_H

#include "engine/program.h"

/* `form` word by word: a space takes any spaces, "#" a whole number into numbers, what else stands there itself. */
nx_status nx__read_form(nx_reader *r, const char *form, int64_t *numbers);
bool nx__accept_word(nx_reader *r, const char *word); /* whether it stands next, after spaces; it is passed then */
nx_status nx__end_line(nx_reader *r);                 /* and to the next line that is not empty */
/* The lines of a tile program behind its step's first line, whose arguments (first the place of the block) and results are
 * there. *op: the operator of its last instruction. */
nx_status nx__read_tile(nx_reader *r, nx_program *program, nx__step *step);

#endif
