/* engine, inside: short names for what protoc-c makes of model.proto, for model.c and model_read.c. */
#ifndef NX_ENGINE_MODEL_H
#define NX_ENGINE_MODEL_H

#include "engine/model.pb-c.h"
#include "engine/session.h"

#define NX__MODEL_VERSION 2
#define NX__MODEL_PRODUCER "narthex 0.1.0"
#define KIND(name) NX__MODEL__VALUE_KIND__##name
#define NODE_KIND(name) NX__MODEL__NODE_KIND__##name
typedef Nx__Model__ModelFile ModelFile;
typedef Nx__Model__ModelDef ModelDef;
typedef Nx__Model__TypeDef TypeDef;
typedef Nx__Model__OpenDef OpenDef;
typedef Nx__Model__ConstDef ConstDef;
typedef Nx__Model__NodeDef NodeDef;
typedef Nx__Model__ValueDef ValueDef;
typedef Nx__Model__ItemDef ItemDef;
typedef Nx__Model__PlanDef PlanDef;
typedef Nx__Model__BufferDef BufferDef;
typedef Nx__Model__MeasuredDef MeasuredDef;

uint64_t nx__model_checksum(const void *data, size_t bytes);

#endif
