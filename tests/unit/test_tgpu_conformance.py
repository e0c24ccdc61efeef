"""The cases of the conformance suite that fit tiny-gpu give there what their oracles say; other runs of them are refused."""

from __future__ import annotations

import importlib
import warnings

import pytest

import magpie as mp
from magpie.backends.registry import backend
from tests.conformance.harness import Beyond, Target, beyond, check

TARGET = Target("tgpu", "tgpu:0", backend("tgpu").manifest, software=True)
#: What a kernel is refused for that asks for what tiny-gpu does not have.
NOT_THERE = {"MPG_CORE_1200", "MPG_TGPU_2001", "MPG_TGPU_2002", "MPG_TGPU_2003", "MPG_TGPU_2004"}
#: Cases, and how many of their runs (types, sizes of workgroups, launches) fit at least.
FITS = {
    "test_arith": {
        "test_abs": 4,
        "test_add": 2,
        "test_augmented_assignment": 2,
        "test_literals_take_the_type_they_meet": 2,
        "test_long_expression": 2,
        "test_max": 6,
        "test_min": 6,
        "test_min_of_three": 2,
        "test_minimum_of_the_type_survives_negation_and_division": 2,
        "test_mul": 2,
        "test_neg": 2,
        "test_pos": 6,
        "test_pow_with_literal_exponents": 2,
        "test_sub": 2,
    },
    "test_bits": {
        "test_bitcast": 1,
        "test_bitwise_on_bool": 3,
        "test_invert": 6,
        "test_logic_on_bool": 1,
    },
    "test_cast": {
        "test_a_store_converts_as_same_kind": 14,
        "test_cast": 32,
        "test_cast_by_calling_the_type": 1,
    },
    "test_compare": {
        "test_and_or_not_as_conditions": 1,
        "test_chained_comparison": 1,
        "test_comparison_with_literals": 6,
        "test_comparisons": 6,
        "test_comparisons_of_bool": 1,
        "test_comparisons_of_mixed_sign_are_value_correct": 18,
        "test_conditional_expression": 7,
        "test_conditional_expression_protects_an_index": 1,
        "test_long_chain_with_literals": 1,
        "test_nested_conditional_expression": 2,
        "test_not": 7,
        "test_select": 7,
        "test_short_circuit_protects_an_index": 1,
        "test_truth_of_a_number": 7,
    },
    "test_control": {
        "test_a_maximum_of_what_starts_as_a_constant": 2,
        "test_break": 1,
        "test_bubble_sort_of_rows": 2,
        "test_early_return_in_a_kernel": 5,
        "test_gcd_by_subtraction": 1,
        "test_pass": 1,
        "test_stores_in_a_divergent_loop": 1,
        "test_temporal_divergence": 1,
        "test_the_loop_variable_holds_its_last_value_afterwards": 1,
        "test_uniform_loops_around_varying_exits": 1,
        "test_while_true_with_a_lookup_behind_the_break": 4,
    },
    "test_functions": {
        "test_a_function_is_specialised_on_its_argument_types": 2,
        "test_a_function_with_effects_and_no_result": 1,
        "test_closures_do_not_share_specialisations": 2,
        "test_functions_as_compile_time_arguments": 2,
        "test_ids_in_three_dimensions": 10,
        "test_many_returns_called_in_a_loop": 1,
        "test_parameters_are_values": 1,
        "test_static_range": 1,
        "test_tuple_assignment": 1,
    },
    "test_grid_sync": {
        "test_a_value_is_not_kept_across_a_barrier": 2,
    },
    "test_guards": {
        "test_an_early_return": 21,
        "test_bounds_anywhere": 100,
        "test_parts_of_a_row": 91,
        "test_weights_that_lie_in_what_is_written": 21,
        "test_what_the_guard_forbids_is_not_read": 14,
    },
    "test_memory": {
        "test_a_load_sees_a_store_through_another_name": 2,
        "test_arguments_may_be_one_array": 3,
        "test_constant_stride_load": 1,
        "test_copy": 7,
        "test_copy_2d": 7,
        "test_copy_3d": 1,
        "test_copy_at_many_sizes": 15,
        "test_empty_arrays_and_a_zero_grid": 40,
        "test_gather": 7,
        "test_in_place": 2,
        "test_negative_stride_1d": 28,
        "test_neighbours": 1,
        "test_one_item_runs_a_recurrence": 1,
        "test_rank_0": 2,
        "test_reverse": 1,
        "test_scatter": 7,
        "test_transpose": 1,
        "test_tuple_of_constants_from_outside": 1,
        "test_two_outputs_one_read_back": 1,
        "test_view_both_reversed": 2,
        "test_view_broadcast_rows": 1,
        "test_view_inner": 2,
        "test_view_one_column": 2,
        "test_view_reversed": 2,
        "test_view_rows": 2,
        "test_view_step": 2,
        "test_view_transposed": 2,
        "test_view_transposed_step": 2,
        "test_views_of_one_base": 1,
    },
    "test_rules": {
        "test_rule_01_offsets_whose_parts_are_large": 1,
        "test_rule_03_an_inlined_early_return_leaves_only_its_own_loops": 1,
        "test_rule_05_temporal_divergence_across_a_barrier": 1,
        "test_rule_14_groups_of_every_shape": 8,
        "test_rule_23_overflow_wraps_before_it_is_compared": 2,
    },
    "test_seed_barriers": {
        "test_shared_memory_does_not_leak_across_workgroups": 5,
        "test_two_straight_line_regions": 3,
    },
    "test_seed_shapes": {
        "test_a_returning_arm_before_a_uniform_split_inside_a_guard": 6,
        "test_a_uniform_loop_inside_a_predicated_loop": 3,
    },
    "test_shared": {
        "test_broadcast_through_shared_memory": 1,
        "test_shared_array_declared_in_a_function": 1,
    },
    "test_strided": {
        "test_images": 2,
        "test_interleaved_loads": 9,
        "test_interleaved_stores": 9,
        "test_loads_at_some_strides": 12,
        "test_order_through_another_name": 1,
        "test_order_within_an_array": 3,
        "test_rows_by_index": 2,
        "test_rows_of_any_length": 12,
        "test_some_lanes_store": 24,
        "test_some_of_the_channels": 18,
        "test_stores_at_some_strides": 12,
        "test_stores_in_any_order": 5,
        "test_stores_with_gaps": 21,
    },
    "test_types": {
        "test_a_variable_joins_its_assignments": 6,
        "test_accumulator_from_an_integer_literal": 2,
        "test_constant_expressions_have_pythons_meaning": 1,
        "test_negative_constants": 1,
        "test_python_integers_are_weak": 2,
    },
    "test_workgroups": {
        "test_ids": 23,
    },
}


@pytest.mark.parametrize(
    ("file", "name"), [(file, name) for file, names in FITS.items() for name in names], ids=lambda part: part
)
def test_case(file, name):
    done = 0
    for run in getattr(importlib.import_module(f"tests.conformance.{file}"), name).runs():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", mp.CompileWarning)
                check(run, TARGET)
            done += 1
        except mp.CompileError as error:
            wrong = {d.code for d in error.diagnostics if d.is_error} - NOT_THERE
            if wrong:
                raise
        except (mp.GpuError, Beyond) as error:
            if beyond(TARGET, error) is None:
                raise
    assert done >= FITS[file][name]
