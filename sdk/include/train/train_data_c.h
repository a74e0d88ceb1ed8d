/* trainrun's datasets for other languages: <train/dataset.h> behind C functions, in
 * libtrainrun_data.so, which needs Arrow C++ and libtrainrun.so of the same version.
 *
 * Any thread may call any function, but a dataset and its batches belong to one thread at a time.
 * Functions that return int return 0 or a TRAINRUN_… code; trainrun_data_last_error() is the text
 * of the calling thread's last failure. The child of a fork must not call any function. */
#ifndef TRAIN_TRAIN_DATA_C_H_
#define TRAIN_TRAIN_DATA_C_H_

#include <stddef.h>
#include <stdint.h>
#include <train/train_c.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Arrow's C data interface (arrow.apache.org/docs/format/CDataInterface.html). */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};
#endif

typedef struct trainrun_dataset trainrun_dataset; /* a rank's shard of a dataset */
typedef struct trainrun_batches trainrun_batches; /* one pass over it */
typedef struct trainrun_batch trainrun_batch;

const char* trainrun_data_last_error(void);
const char* trainrun_data_last_error_kind(void);

/* Set *out to this worker's shard of the spec's dataset; the first call for a name opens it. Free
 * it with trainrun_dataset_free: the next call continues where this one was. */
int trainrun_dataset_open(const char* name, trainrun_dataset** out);
void trainrun_dataset_free(trainrun_dataset* dataset);
/* Return how many rows this rank's share has, and the whole dataset; −1 on failure. */
int64_t trainrun_dataset_rows(const trainrun_dataset* dataset);
int64_t trainrun_dataset_total_rows(const trainrun_dataset* dataset);
/* Set *out to the columns of the batches. Its `release` frees it. */
int trainrun_dataset_schema(const trainrun_dataset* dataset, struct ArrowSchema* out);
/* Set the epoch of the next pass (DatasetShard::set_epoch). */
int trainrun_dataset_set_epoch(trainrun_dataset* dataset, uint64_t epoch);
/* Set *out to what the operators have done, as a JSON list of {"name", "rows", "bytes", "busy_us",
 * "waited_for_input_us", "waited_for_room_us", "queue_bytes"}. It is valid until the same thread
 * calls this again. */
int trainrun_dataset_stats(const trainrun_dataset* dataset, const char** out_json);

/* As train::BatchOptions. `size` is sizeof(trainrun_batch_options). */
typedef struct {
  size_t size;
  int64_t batch_size;
  double weight;
  int drop_last;
  int prefetch_batches;
  int64_t prefetch_bytes;
} trainrun_batch_options;

/* Set *out to the next pass. For a split dataset, this is a collective. A pass that is freed early
 * is over. */
int trainrun_dataset_iter_batches(trainrun_dataset* dataset, const trainrun_batch_options* options,
                                  trainrun_batches** out);
int64_t trainrun_batches_size(const trainrun_batches* batches); /* the same on all ranks */
/* Set *out to the next batch, or to NULL at the end. A batch may outlive its pass. */
int trainrun_batches_next(trainrun_batches* batches, trainrun_batch** out);
void trainrun_batches_free(trainrun_batches* batches);

int64_t trainrun_batch_rows(const trainrun_batch* batch);
/* The rows from this one on are repeats: mask them out of sums and means. */
int64_t trainrun_batch_valid_rows(const trainrun_batch* batch);
/* The valid rows' part of those of all ranks in this step, times the number of ranks. */
double trainrun_batch_weight(const trainrun_batch* batch);

/* A column as plain memory: row-major, aligned only to its type. Other batches may share it, so
 * nobody may write to it. */
typedef struct {
  const char* name;
  const char* type;     /* "bool" (a byte each), "uint8", "int8", … "float16", "float64" */
  const int64_t* shape; /* rows, and a dimension for each level of lists */
  size_t dimensions;
  const void* data;
} trainrun_column;
/* Set *out to the columns, which are valid until the batch is freed. Nothing is copied but bools.
 * Fails for columns with nulls, with lists of unequal length, and of types that no tensor has. */
int trainrun_batch_columns(trainrun_batch* batch, const trainrun_column** out, size_t* count);
/* Set both to the batch as a struct array, with columns of any type. Their `release` frees them;
 * they may outlive the batch. */
int trainrun_batch_export(const trainrun_batch* batch, struct ArrowSchema* schema,
                          struct ArrowArray* array);
void trainrun_batch_free(trainrun_batch* batch);

/* In a process that the run has started to read datasets for the ranks (TRAINRUN_INGEST is set):
 * serve them until the run ends, and set *code to the exit code. */
int trainrun_data_serve(int* code);

#ifdef __cplusplus
}
#endif

#endif /* TRAIN_TRAIN_DATA_C_H_ */
