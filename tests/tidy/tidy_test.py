#!/usr/bin/env python3
"""Every rule is shown failing on a planted violation, and silent on what it must not mistake for one."""

import unittest

import rules
from tree import Tree, split_cpp

# rule: (files that violate it, files that do not)
PLANTED = {
    "layers_are_a_dag": (
        [
            {"tests/tidy/layers.txt": "a: b\nb: a\n", "CMakeLists.txt": ""},
            {"tests/tidy/layers.txt": "api/wire:\napi/wire:\n"},
            {"tests/tidy/layers.txt": "api/wire:\napi/kv: api/wire\n", "api/kv/a.h": '#include "api/kv/b.h"\n'},
        ],
        {
            "tests/tidy/layers.txt": "# Words.\napi/wire:\napi/kv:\n    api/wire\n",
            "api/kv/a.h": '#include "api/wire/b.h"\n',
        },
    ),
    "include_dag": (
        [
            {"api/wire/a.cc": '#include "model/tokenizer/tokenizer.h"\n'},
            {"api/wire/a.cc": '#include "api/request/chat_request.h"\n'},
            {"scheduler/a.h": '#include "kernels/device.h"\n'},
            {"model/run/a.cc": '#include "scheduler/scheduler.h"\n'},
            {"block_manager/a.cc": "#include <chrono>\n"},
            {"scheduler/a.cc": "#include <nlohmann/json.hpp>\n"},
            {"kernels/a.cc": '#include "nlohmann/json.hpp"\n'},
            {"model/tokenizer/a.cc": '#include "tokenizer.h"\n'},
            {"model/cellar/a.cc": ""},
            {"server/generation/a.cc": "#include <boost/asio.hpp>\n"},
        ],
        {
            "server/a.cc": '#include "kernels/cpu/cpu_device.h"\n#include <boost/asio.hpp>\n',
            "model/run/a.cc": '#include "kernels/device.h"\n#include <chrono>\n#include "absl/status/status.h"\n',
            "tests/model/a_test.cc": '#include "server/engine/engine.h"\n',
        },
    ),
    "includes_reach": (
        [
            {"kernels/a.h": "int BlocksFor(int n);\n", "model/run/a.cc": "int b = BlocksFor(1);\n"},
            {"kernels/a.h": "constexpr int64_t BlocksFor(int n) {}\n", "kernels/b.h": "  return BlocksFor(1);\n"},
            {"kernels/a.h": "int BlocksFor(int n);\n", "kernels/b.h": "  throw BlocksFor(1) * BlocksFor(2);\n"},
            {"kernels/a.h": "int BlocksFor(int n);\n", "kernels/b.h": "bool c = x && BlocksFor(1);\n"},
        ],
        {
            "kernels/a.h": "std::vector<int> BlocksFor(int n);\nint TilesFor(int n);\nint RowsFor(int n);\n",
            "kernels/b.h": '#include "kernels/a.h"\n',
            "kernels/b.cc": '#include "kernels/b.h"\nint c = BlocksFor(1);  // and no TilesFor()\n',
            "kernels/c.cc": "int TilesFor(long n) {}\nint d = TilesFor(1) + e.RowsFor(2) + f->RowsFor(3) + g::RowsFor(4);\n",
            "api/wire/a.cc": "int h = BlocksFor(1);\n",
        },
    ),
    "link_dag": (
        [
            {"model/run/CMakeLists.txt": "hydrant_library(hydrant_model_run\n  SOURCES a.cc\n  DEPS hydrant_scheduler)\n"},
            {"server/http/CMakeLists.txt": "hydrant_library(hydrant_server_http SOURCES a.cc DEPS hydrant_kernels)\n"},
            {"api/wire/CMakeLists.txt": "target_link_libraries(hydrant_api_wire PUBLIC hydrant_api_kv)\n"},
            {"scheduler/CMakeLists.txt": "hydrant_library(hydrant_scheduler SOURCES a.cc DEPS hydrant_engine_core)\n"},
        ],
        {
            "model/run/CMakeLists.txt": "hydrant_library(hydrant_model_run SOURCES a.cc DEPS hydrant_kernels absl::status)\n",
            "server/http/CMakeLists.txt": "hydrant_library(hydrant_server_http SOURCES a.cc DEPS hydrant_asio hydrant_flags)\n",
            "model/jinja/CMakeLists.txt": "hydrant_library(hydrant_model_jinja SOURCES core/a.cc DEPS hydrant_model_text)\n",
            "tests/sim/CMakeLists.txt": "target_link_libraries(a hydrant_kernels)\n",
        },
    ),
    "folder_size": (
        [{f"api/wire/a{i}.cc": "" for i in range(21)}, {f"api/wire/a{i}.h": "" for i in range(21)}],
        {f"api/wire/a{i}.{extension}": "" for i in range(20) for extension in ("cc", "h")},
    ),
    "sources_are_built": (
        [{"api/CMakeLists.txt": "a.cc\n", "api/b.cc": ""}, {"api/wire/CMakeLists.txt": "a.cc\n", "api/a.cc": ""}],
        {"kernels/CMakeLists.txt": "cpu/gemm.cc\n", "kernels/cpu/gemm.cc": "", "kernels/cpu/gemm.h": "",
         "tests/a/CMakeLists.txt": "support/b.cc\n", "tests/support/b.cc": ""},
    ),
    "banned_calls": (
        [
            {"api/request.cc": "int n = j.get<int>();\n"},
            {"model/config.cc": 'auto n = j["x"].template get<int>();\n'},
            {"tests/server/a_test.cc": "std::this_thread::sleep_for(1ms);\n"},
            {"kernels/a.cc": "int x = rand();\n"},
            {"kernels/a.cc": "#ifdef NDEBUG\n"},
            {"model/a.cc": 'printf("%d", 1);\n'},
            {"server/a.cc": "std::cerr << 1;\n"},
            {"tests/a.cc": "using namespace std;\n"},
            {"api/a.cc": "socket.connect(endpoint);\n"},
            {"server/a.cc": "tcp::resolver resolver(io);\n"},
        ],
        {
            "api/wire/json_body.cc": "j.get<int64_t>();\n",
            "api/a.cc": '// j.get<int>() is a silent cast\nstd::get<0>(t); x.get(); const char* s = "printf(";\n',
            "model/a.cc": "std::snprintf(b, n, f); int operand(int); operand(1); DefaultRand(2);\n",
            "server/main.cc": "std::fprintf(stderr, s);\n",
            "server/http/http_listener.cc": "probe.connect(endpoint, refused);\n",
            "server/routes.cc": "// connect(\nbool is_connected(int); Disconnect(); ResolveKvPolicy(spec);\n",
            "loadgen/a.cc": "stream.async_connect(endpoints);\n",
        },
    ),
    "assertions_stay_on": (
        [{"CMakeLists.txt": 'set(CMAKE_CXX_FLAGS "-O2 -DNDEBUG")\n'}, {"CMakePresets.json": '"RelWithDebInfo"'}],
        {"CMakeLists.txt": '# NDEBUG is never defined.\nset(CMAKE_CXX_FLAGS_RELEASE "-O2")\n'},
    ),
    "tests_mirror_the_tree": (
        [{"api/a.cc": ""}, {"tests/kernels/cpu/b_test.cc": ""}],
        {"kernels/cpu/a.cc": "", "tests/kernels/cpu/a_test.cc": "", "api/b.h": "", "tests/api/b_test.cc": "",
         "tests/sim/anything_test.cc": "", "tests/api/fixture.h": ""},
    ),
    "file_length": ([{"api/a.h": "\n" * 601}], {"api/a.h": "\n" * 600, "tests/golden/x.json": "\n" * 5000}),
    "function_length": (
        [
            {"api/a.cc": "void F() {\n" + "  x();\n" * 71 + "}\n"},
            {"kernels/a.cc": "void F(int a,\n       int b) {\n" + "  x();\n" * 121 + "}\n"},
            {"api/a.cc": "template <typename T>\nvoid F(T a,\n       T b) {\n" + "  x();\n\n" * 36 + "}\n"},
        ],
        {
            "api/a.cc": "namespace hydrant {\n" + "void F() {\n" + "  x();\n" * 70 + "}\n" * 2,
            "api/b.h": "class A {\n" + "  int x;\n" * 200 + "};\n",
            "api/c.cc": "constexpr int kTable[] = {\n" + "  1,\n" * 200 + "};\n",
            "api/d.cc": "constexpr Names kNames{\n    1, 2};\n" + "int x;\n" * 200,
        },
    ),
    "header_guards": (
        [{"api/a.h": "#ifndef A_H\n#define A_H\n#endif\n"}, {"kernels/cpu/a.h": "#pragma once\n"}],
        {"kernels/cpu/a.h": "#ifndef HYDRANT_KERNELS_CPU_A_H_\n#define HYDRANT_KERNELS_CPU_A_H_\n#endif\n"},
    ),
    "whitespace": (
        [{"a.cc": "x \n"}, {"a.py": "\tx\n"}, {"a.cc": "x"}, {"a.cc": "x\r\n"}, {"a.md": "x\n\n"}],
        {"a.cc": "  x\n\ny\n", "a.json": "x"},
    ),
    "no_private_places": (
        [{"a.cc": '"/home/me/x"\n'}, {"a.md": "see /work/main\n"}, {"a.sh": "curl https://pypi.org/simple\n"}],
        {"a.cc": '"/proc/self/maps" "/etc/passwd" a/work/b\n', "a.sh": '"$PWD/tmp/x" ./root/x\n'},
    ),
    "documents_exist": (
        [{"a.cc": "// see nowhere.md section 3\n"}],
        {"a.cc": "// see DESIGN.md\n", "DESIGN.md": "x\n"},
    ),
    "design_is_a_page": (
        [{"DESIGN.md": "x\n" * 121}, {"DESIGN.md": "x" * 101 + "\n"}, {"DESIGN.md": "## Folders\nserver\n## Nouns\n"}],
        {"DESIGN.md": "x" * 100 + "\n" + "x\n" * 119},
    ),
    "prose_width": (
        [{"a.md": "x" * 121 + "\n"}, {"docs/a.md": "```\nx\n```\n" + "x" * 121 + "\n"}],
        {"a.md": "x" * 120 + "\n| " + "x" * 200 + " |\n```\n" + "x" * 200 + "\n```\n![" + "x" * 200 + "](a.svg)\n"},
    ),
    "documented_paths_exist": (
        [{"docs/a.md": "see `api/gone.h`\n", "api/a.h": ""}, {"docs/a.md": "see `api/a.{h,cc}`\n", "api/a.h": ""}],
        {"docs/a.md": "see `api/a.h`, `api`, `api/sub`, `api/a.{h,cc}`, `build/x.h`, `docs/x.webp`, `api/b --flag`\n",
         "api/a.h": "", "api/a.cc": "", "api/sub/c.h": "", "api/b.cc": ""},
    ),
    "links_lead_somewhere": (
        [{"docs/a.md": "[b](b.md)\n"}, {"docs/a.md": "[b](../b.md#gone)\n", "b.md": "# Here\n"}, {"a.md": "[b](docs)\n", "docs/b.md": ""}],
        {"docs/a.md": "[b](../b.md#to-add-) [c](#here) [web](https://a.b/c) [p](x.svg)\n# Here\n",
         "b.md": "## To add …\n"},
    ),
    "api_is_documented": (
        [
            {"api/a.cc": 'reader->Bool("verbose", false);\n', "docs/api.md": "| `quiet` |\n"},
            {"server/a.cc": 'routes.push_back(Simple("GET", "/secret", true, f));\n', "docs/api.md": "`GET /open`\n"},
        ],
        {"api/a.cc": 'reader.Bool("verbose", false);\n', "docs/api.md": "`GET /open` `POST /b` | `verbose`\n",
         "server/a.cc": 'Simple("GET", "/open", true, f); OnBody("/b", g);\n'},
    ),
    "threads_are_documented": (
        [{"server/a.cc": 'pthread_setname_np(pthread_self(), "masks");\n', "docs/debugging.md": "`engine`, `worker`\n"}],
        {"server/a.cc": 'pthread_setname_np(pthread_self(), "kv writer");\n', "docs/debugging.md": "`kv\nwriter` writes\n"},
    ),
    "glossary": (
        [
            {"block_manager/a.h": "int page_count;\n"},
            {"scheduler/a.cc": "// Every page of a sequence.\n"},
            {"kernels/a.cc": "struct PageTable {};\n"},
            {"server/a.cc": "void Iteration();\n"},
            {"scheduler/a.cc": "// The next iteration of the engine.\n"},
        ],
        {
            "kernels/a.cc": "// Huge pages halve the misses.\nmadvise(p, n, MADV_HUGEPAGE);\nint page_size;\n",
            "kernels/b.cc": "// Paged attention, and the page cache.\nfor (auto iterator : x) {}\n",
            "model/a.cc": "if (factor.value < 0) {}\n",
            "server/a.cc": '// A page in a browser.\nHistogram("vllm:iteration_tokens_total");\n',
        },
    ),
    "comments_have_a_subject": (
        [{"a.cc": "// Of its rows.\nint x;\n"}, {"a.h": "int y;  // size\n  // Of one tenant.\n"}],
        {"a.cc": "// The last one\n// Of it all.\nint x;  // offset\n// Office hours.\n"},
    ),
    "requirements_have_hashes": (
        [
            {"tests/a/requirements.txt": "--require-hashes\n--only-binary :all:\na==1\n"},
            {"tests/a/requirements.txt": f"--only-binary :all:\na==1 --hash=sha256:{'0' * 64}\n"},
            {"tests/a/requirements.txt": f"--require-hashes\na==1 --hash=sha256:{'0' * 64}\n"},
            {"tests/a/requirements/b.txt": f"--require-hashes\n--only-binary :all:\na>=1 --hash=sha256:{'0' * 64}\n"},
            {"hydrant": "python3 -m pip --quiet \\\n  download a==1\n\n\n"},
            {"tests/a.py": 'pip = [python, "-m", "pip", "install"]\n\n\n'},
        ],
        {
            "tests/a/requirements.txt": f"# All.\n--require-hashes\n--only-binary :all:\na_b.c==1.0 --hash=sha256:{'0' * 64}\n",
            "tests/a/notes.txt": "a\n",
            "hydrant": "python3 -m pip --quiet \\\n  download --require-hashes -r a.txt\n\n",
        },
    ),
    "ascii_code": (
        [{"a.cc": "int café;\n"}],
        {"a.cc": '// rows × columns\nconst char* s = "é"; auto r = R"(ü)";\n'},
    ),
    "todo_has_a_condition": (
        [{"a.cc": "// TODO: make faster\n"}, {"a.cc": "// FIXME\n"}],
        {"a.cc": "// TODO: drop this once Debian 13 is the floor.\n"},
    ),
}


class TidyTest(unittest.TestCase):
    def violations(self, name, files):
        function = next(rule for rule in rules.RULES if rule.__name__ == name)
        return list(function(Tree(files)))

    def test_every_rule_is_planted(self):
        self.assertEqual([rule.__name__ for rule in rules.RULES], list(PLANTED))

    def test_planted_violations_are_found(self):
        for name, (bad, _) in PLANTED.items():
            for files in bad:
                with self.subTest(rule=name, files=files):
                    self.assertTrue(self.violations(name, files))

    def test_good_files_pass(self):
        for name, (_, good) in PLANTED.items():
            with self.subTest(rule=name):
                self.assertEqual(self.violations(name, good), [])

    def test_comments_and_strings_are_told_from_code(self):
        text = 'a("// no", \'"\', 1\'000); // yes "x"\nR"x(/* )" no)x"; /* yes\nyes */ b\n'
        code, comments = split_cpp(text)
        self.assertEqual(len(code), len(text))
        self.assertNotIn("no", code + comments)
        self.assertNotIn("yes", code)
        self.assertEqual(comments.count("yes"), 3)
        self.assertIn("b", code)

    def test_violations_name_their_line(self):
        (violation,) = self.violations("banned_calls", {"model/a.cc": "\n\nj.get<int>();\n"})
        self.assertEqual(violation[:2], ("model/a.cc", 3))


if __name__ == "__main__":
    unittest.main()
