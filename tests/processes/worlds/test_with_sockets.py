"""Stand-ins of every protocol with real sockets and a background thread: tests of the fast tier, run again.

Tests of an answer that does not depend on how it travels are left out.
"""

from tests.fast.worlds.test_chain import (
    test_a_node_answers_questions_and_tells_subscribers_of_blocks_logs_and_forks,
)
from tests.fast.worlds.test_site import (
    test_a_client_that_asks_for_it_is_answered_once_and_closed,
    test_a_client_that_speaks_no_http_is_cut_and_reaches_no_route,
    test_a_connection_is_cut_before_after_or_within_an_answer,
    test_a_large_answer_and_a_large_question_arrive_whole,
    test_a_question_that_was_cut_off_reaches_no_route_and_no_log,
    test_a_stalled_answer_holds_up_no_other_and_ends_with_the_site,
    test_questions_of_one_connection_are_answered_one_after_another,
)
from tests.fast.worlds.test_smtp import (
    test_a_fault_happens_at_its_stage,
    test_a_mail_is_delivered_into_the_journal,
    test_a_stalled_answer_holds_up_no_other_and_ends_with_the_server,
)
from tests.fast.worlds.test_stream import (
    test_a_cut_line_is_closed_and_the_next_one_is_served,
    test_a_silent_line_ends_with_its_stream,
    test_a_stream_that_died_cuts_its_lines_and_hears_nothing,
    test_a_subscriber_that_lets_too_much_wait_is_closed,
    test_every_subscriber_hears_what_happens_from_then_on,
)

__all__ = [
    "test_a_client_that_asks_for_it_is_answered_once_and_closed",
    "test_a_client_that_speaks_no_http_is_cut_and_reaches_no_route",
    "test_a_connection_is_cut_before_after_or_within_an_answer",
    "test_a_cut_line_is_closed_and_the_next_one_is_served",
    "test_a_fault_happens_at_its_stage",
    "test_a_large_answer_and_a_large_question_arrive_whole",
    "test_a_mail_is_delivered_into_the_journal",
    "test_a_node_answers_questions_and_tells_subscribers_of_blocks_logs_and_forks",
    "test_a_question_that_was_cut_off_reaches_no_route_and_no_log",
    "test_a_silent_line_ends_with_its_stream",
    "test_a_stalled_answer_holds_up_no_other_and_ends_with_the_server",
    "test_a_stalled_answer_holds_up_no_other_and_ends_with_the_site",
    "test_a_stream_that_died_cuts_its_lines_and_hears_nothing",
    "test_a_subscriber_that_lets_too_much_wait_is_closed",
    "test_every_subscriber_hears_what_happens_from_then_on",
    "test_questions_of_one_connection_are_answered_one_after_another",
]
