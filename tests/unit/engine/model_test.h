/* Shared by the tests of model files: a folder for one file, and what is written there. */
#ifndef NX_MODEL_TEST_H
#define NX_MODEL_TEST_H

#include "engine_test.h"

#include "engine/model.h"

static char folder[] = P_tmpdir "/narthex-model-XXXXXX";
static char path[64];

static inline int make_folder(void) {
    if (!nx_op_count() && nx__register_ops() != NX_OK) return 1;
    if (mkdtemp(folder) == NULL) return 1;
    nx_flag.cache = "0";
    snprintf(path, sizeof path, "%s/model.nxm", folder);
    return 0;
}

static inline void write_bytes(const void *data, size_t n) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n, file), n);
    fclose(file);
}

/* A file with the right version and checksum around whatever `model` is. */
static inline void write_wrapped(const uint8_t *model, size_t n) {
    ModelFile file;
    nx__model__model_file__init(&file);
    file.version = NX__MODEL_VERSION;
    file.model = (ProtobufCBinaryData){n, (uint8_t *)model};
    file.checksum = nx__model_checksum(model, n);
    uint8_t *data = malloc(n + 64);
    write_bytes(data, protobuf_c_message_pack(&file.base, data));
    free(data);
}

#endif
