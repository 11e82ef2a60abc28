// A test of ops on matrices: a device, and matrices in its memory.
#ifndef HYDRANT_TESTS_KERNELS_MATRIX_FIXTURE_H_
#define HYDRANT_TESTS_KERNELS_MATRIX_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/device.h"
#include "tests/kernels/kv_fixture.h"
#include "tests/kernels/operands.h"
#include "tests/kernels/tested_device.h"

namespace hydrant {

class MatrixFixture : public testing::Test {
 protected:
  explicit MatrixFixture(const StepBounds& bounds) : device_(TestedDevices().front().make(1)) {
    device_->ReserveScratch(bounds);
  }

  // Device memory of rows x cols, with what no op writes in it when `values` is empty.
  Matrix On(int64_t rows, int64_t cols, const Floats& values = {}) {
    memory_.push_back(OnDevice(*device_, values.empty() ? Floats(static_cast<size_t>(rows * cols), 12345.0f) : values));
    return {.data = memory_.back()->data(), .rows = rows, .cols = cols};
  }
  Floats Read(const Matrix& matrix) {
    Floats values(static_cast<size_t>(matrix.rows * matrix.cols));
    device_->CopyToHost(values.data(), matrix.data, values.size() * sizeof(float));
    return values;
  }

  std::unique_ptr<Device> device_;
  std::vector<std::unique_ptr<DeviceBuffer>> memory_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_KERNELS_MATRIX_FIXTURE_H_
