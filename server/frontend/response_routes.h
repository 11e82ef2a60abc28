// What becomes of responses that are kept, and conversations: GET and DELETE /v1/responses/{id}, GET …/input_items, POST …/cancel, POST
// /v1/responses/input_tokens; POST /v1/conversations; GET, POST and DELETE /v1/conversations/{id}, GET and POST …/items, GET and DELETE
// …/items/{item}. All of the caller's tenant, which alone can tell that they are there.
//
// Thread: built once; handlers run on any strand, and read the sessions on the threads that wait for the disk.
#ifndef HYDRANT_SERVER_FRONTEND_RESPONSE_ROUTES_H_
#define HYDRANT_SERVER_FRONTEND_RESPONSE_ROUTES_H_

#include <vector>

#include "server/frontend/admission_control.h"
#include "server/generation/generation_prepare.h"
#include "server/http/listener_context.h"
#include "server/http/worker_pool.h"

namespace hydrant {

// The arguments outlive the routes.
void AddResponseRoutes(const ServingContext& context, AdmissionControl& admission, WorkerPool& workers,
                       WorkerPool& disk_workers, std::vector<HttpRoute>* routes);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_FRONTEND_RESPONSE_ROUTES_H_
