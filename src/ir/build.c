/* Building a graph from C (narthex.h): inputs, calls, results. What comes from outside is checked here:
 * argument tags, shapes through the operator's own rule, names. After this a graph is only wrong if its
 * order is; verify.c tells. */
#include "ir/private.h"

nx_status nx_fake_new(const nx_meta *meta, int64_t offset, nx_tensor **out) {
    nx_storage *storage;
    nx_meta placed = *meta;
    placed.offset = offset;
    if (offset == 0) return nx_tensor_new_meta(meta, true, out);
    size_t bytes = nx_meta_bytes(meta);
    if (bytes) bytes += (size_t)offset * nx_dtype_bytes(meta->dtype);
    NX_TRY(nx_storage_new_fake(meta->device, bytes, &storage));
    nx_status status =
        nx_tensor_new_view(storage, &placed, NX_DEVICE_KEY(meta->device) | NX_KEY(FAKE), NULL, out);
    nx_storage_unref(storage);
    return status;
}

nx_status nx_fake_like(const nx_tensor *tensor, nx_tensor **out) {
    nx_meta meta;
    nx_meta_of(&tensor->a, &meta);
    return nx_fake_new(&meta, tensor->offset, out);
}

nx_status nx_fake_of(const nx_tensor *tensor, nx_tensor **out) {
    nx_meta meta;
    nx_meta_of(&tensor->a, &meta);
    return nx_fake_new(&meta, 0, out);
}

nx_status nx_fake_zeros(const nx_tensor *like, nx_tensor **out) {
    nx_value result = NX_VALUE_NONE;
    const nx_value in[] = {nx_value_ints(like->a.sizes, like->a.ndim), nx_value_dtype((nx_dtype)like->a.dtype), NX_VALUE_NONE,
                           nx_value_device(like->a.device), NX_VALUE_NONE};
    NX_TRY(nx_op_call(nx_known(NX_KNOWN_ZEROS), in, &result));
    *out = result.tensor;
    return NX_OK;
}

nx_status nx_graph_input_like(nx_graph *graph, const char *name, const char *target, nx_tensor *fake,
                              nx_node **out) {
    nx_node *node, *where = graph->last_input ? graph->last_input->next : graph->first;
    nx_status status;
    if (where)
        status = nx_graph_insert_before(where, NX_NODE_PLACEHOLDER, name, NULL, target, NULL, 0, &node);
    else status = nx_graph_append(graph, NX_NODE_PLACEHOLDER, name, NULL, target, NULL, 0, &node);
    if (status != NX_OK) return status;
    status = nx_node_set_fakes(node, &fake, 1);
    if (status != NX_OK) {
        nx_node_erase(node);
        return status;
    }
    *out = node;
    return NX_OK;
}

nx_status nx_graph_input(nx_graph *graph, const char *name, nx_dtype dtype, int ndim, const int64_t *sizes,
                         nx_device device, nx_node **out) {
    nx_meta meta = {.dtype = dtype, .device = device, .ndim = ndim, .view_of = -1};
    nx_tensor *fake;
    if (graph == NULL || name == NULL) return nx_fail(NX_VALUE, "graph input: a graph and a name are needed");
    if ((int)dtype < 0 || dtype >= NX_N_DTYPES)
        return nx_fail(NX_VALUE, "graph input %s: %d is no dtype", name, (int)dtype);
    if (ndim < 0 || ndim > NX_MAX_DIMS)
        return nx_fail(NX_VALUE, "graph input %s: %d dimensions, 0 to %d are possible", name, ndim,
                       NX_MAX_DIMS);
    if (device.type < 0 || device.type >= nx_device_n_types())
        return nx_fail(NX_VALUE, "graph input %s: no such device", name);
    for (int d = 0; d < ndim; d++) {
        if (sizes[d] < 0)
            return nx_fail(NX_VALUE, "graph input %s: size %lld of dimension %d is negative", name,
                           (long long)sizes[d], d);
        meta.size[d] = sizes[d];
    }
    nx_meta_contiguous(&meta);
    NX_TRY(nx_tensor_new_meta(&meta, true, &fake));
    nx_status status = nx_graph_input_like(graph, name, name, fake, out);
    nx_tensor_unref(fake);
    return status;
}

nx_status nx_graph_constant(nx_graph *graph, const char *name, nx_tensor *constant, nx_node **out) {
    nx_node *node;
    NX_TRY(nx_graph_append(graph, NX_NODE_GET_ATTR, name, NULL, NULL, NULL, 0, &node));
    nx_status status = nx_node_set_fakes(node, &constant, 1);
    if (status == NX_OK && (node->target = nx_arena_text(&graph->arena, node->name)) == NULL)
        status = nx_fail_memory(strlen(node->name) + 1);
    if (status != NX_OK) {
        nx_node_erase(node);
        return status;
    }
    node->constant = nx_tensor_ref(constant);
    *out = node;
    return NX_OK;
}

nx_status nx_graph_call_named(nx_graph *graph, const nx_op *op, const nx_value *in, const char *name,
                              nx_node **out) {
    nx__fakes fakes;
    nx_node *node = NULL;
    if (graph == NULL || op == NULL)
        return nx_fail(NX_VALUE, "graph call: a graph and an operator are needed");
    NX_TRY(nx_args_check(op, in, op->def->n_in, NX_TAG_NODE));
    NX_TRY(nx_graph_append(graph, NX_NODE_CALL_FUNCTION, name, op, NULL, in, op->def->n_in, &node));
    nx_status status = nx__infer(op, node->args, node->n_args, &fakes);
    if (status == NX_OK) {
        status = nx_node_set_fakes(node, fakes.at, fakes.n);
        nx__fakes_end(&fakes);
    }
    if (status != NX_OK) {
        nx_node_erase(node);
        return status;
    }
    *out = node;
    return NX_OK;
}

nx_status nx_graph_call(nx_graph *graph, const nx_op *op, const nx_value *in, nx_node **out) {
    return nx_graph_call_named(graph, op, in, NULL, out);
}

nx_status nx_graph_output(nx_graph *graph, const nx_value *results, int n) {
    nx_node *node;
    if (graph == NULL || n < 0) return nx_fail(NX_VALUE, "graph output: a graph is needed");
    if (nx_graph_output_node(graph))
        return nx_fail(NX_RUNTIME, "graph output: the graph has its output already");
    for (int i = 0; i < n; i++) {
        if (results[i].tag != NX_TAG_NODE)
            return nx_fail(NX_TYPE, "graph output: result %d is not a node", i);
        if (results[i].n < 0 || results[i].n >= results[i].node->n_results)
            return nx_fail(NX_RUNTIME, "graph output: %s has no result %d", results[i].node->name,
                           results[i].n);
    }
    return nx_graph_append(graph, NX_NODE_OUTPUT, "output", NULL, NULL, results, n, &node);
}

static const nx_node *input_number(const nx_graph *graph, int number) {
    const nx_node *node = graph->first;
    while (node && node->kind == NX_NODE_PLACEHOLDER && number-- > 0) node = node->next;
    return node && node->kind == NX_NODE_PLACEHOLDER ? node : NULL;
}

static nx_status copy_inputs(const nx_graph *graph, const int *order, int n, nx_map *map, nx_graph *copy) {
    nx_node *made;
    for (int k = 0; k < n; k++) {
        const nx_node *node = order[k] < 0 ? NULL : input_number(graph, order[k]);
        if (node == NULL || nx_map_get(map, node))
            return nx_fail(NX_VALUE, "graph: %d is no input, or stands there twice", order[k]);
        NX_TRY(nx_graph_input_like(copy, node->name, node->target, node->fakes[0], &made));
        NX_TRY(nx_node_copy_open(made, node));
        NX_TRY(nx_map_set(map, node, made));
    }
    return NX_OK;
}

nx_status nx_graph_with_constants(const nx_graph *graph, nx_tensor *const *values, const int *order, int n,
                                  nx_graph **out) {
    nx_map map = {0};
    nx_graph *copy;
    nx_node *made;
    int k = 0;
    NX_TRY(nx_graph_new(&copy));
    copy->level = graph->level;
    nx_status status = copy_inputs(graph, order, n, &map, copy);
    for (const nx_node *node = graph->first; node && status == NX_OK; node = node->next) {
        nx_tensor *value = node->kind == NX_NODE_PLACEHOLDER ? values[k++] : NULL;
        if (nx_map_get(&map, node)) continue;
        if (node->kind != NX_NODE_PLACEHOLDER) {
            status = nx_graph_copy_node(copy, node, &map, &made);
        } else if (value == NULL) {
            status = nx_fail(NX_VALUE, "graph: input %s has neither a place nor a value", node->name);
        } else {
            status = nx_graph_constant(copy, node->name, value, &made);
            if (status == NX_OK) status = nx_map_set(&map, node, made);
        }
    }
    nx_map_free(&map);
    if (status == NX_OK) *out = copy;
    else nx_graph_free(copy);
    return status;
}
