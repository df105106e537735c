//! What the queue promises, on either store. Each case starts in an empty world; PostgreSQL runs them all in one cluster.
mod agents;
mod commands;
mod sharing;

use crate::{cluster::Cluster, world::World};

macro_rules! contract {
    ($($module:ident: [$($name:ident),+ $(,)?];)+) => {
        $($(#[tokio::test]
        async fn $name() {
            $module::$name(&mut World::sqlite().await).await;
        })+)+

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn postgres_keeps_the_whole_contract() {
            let cluster = Cluster::start();
            $($({
                eprintln!("{}", stringify!($name));
                let mut world = World::at(cluster.place().await, None).await;
                $module::$name(&mut world).await;
                world.app.close().await;
            })+)+
        }
    };
}

contract! {
    commands: [
        a_run_goes_from_ticket_to_result_byte_for_byte,
        a_cloned_device_cannot_start_a_command_twice,
        a_cut_sync_offers_the_command_again,
        an_accepted_cancel_always_ends_as_cancelled,
        cancelling_ends_a_queued_command_at_once_and_changes_no_ending,
        nothing_lives_only_in_memory,
        a_withdrawn_start_ends_as_not_shared,
        a_restarted_desktop_ends_its_cancelled_command,
        a_late_completion_changes_nothing_and_is_let_go,
        a_queue_that_forgot_a_start_takes_the_devices_word,
        time_alone_expires_prunes_and_gives_up,
        the_doorbell_rings_only_for_what_this_device_could_start,
    ];
    agents: [
        fifty_calls_with_one_key_make_one_command,
        a_key_belongs_to_one_run_whatever_the_spelling,
        two_agents_may_use_the_same_key,
        keys_have_a_length_and_are_never_blank,
        another_agents_run_reads_like_one_that_never_was,
        scopes_and_tokens_decide_who_may_call,
        arguments_are_checked_before_anything_is_queued,
        pages_follow_each_other_without_gap,
        a_session_runs_under_the_oldest_granted_project,
        a_project_takes_a_hundred_queued_commands,
        revoking_an_agent_ends_everything_of_it,
    ];
    sharing: [
        a_hundred_and_first_session_is_refused_and_the_last_list_stands,
        an_older_list_does_not_replace_a_newer_one,
        a_session_is_held_by_the_first_device_that_synced_it,
        nul_and_odd_text_come_back_unchanged,
        a_project_with_nothing_shared_lists_exactly_nothing,
        an_answer_to_a_sync_stays_under_its_size,
        pairing_again_keeps_the_identity_and_kills_the_old_token,
        unpairing_withdraws_what_has_not_begun,
        deleting_a_project_withdraws_what_it_holds,
        disabling_a_project_ends_what_is_queued_and_nothing_comes_back,
        projects_have_one_name_each,
        the_owner_sees_all_commands_but_only_own_results,
    ];
    elsewhere: [
        a_client_connects_by_the_book,
        a_rotated_token_has_a_grace_and_then_ends_its_grant,
        a_code_is_used_once_by_whom_it_was_given_to,
        a_new_consent_is_a_new_agent_unless_the_owner_says_otherwise,
        the_owners_page_is_read_with_a_code_from_the_desktop,
    ];
}

/// Cases that stand beside what they use.
mod elsewhere {
    use crate::world::World;

    pub async fn a_client_connects_by_the_book(w: &mut World) {
        crate::oauth::by_the_book(w).await;
    }

    pub async fn a_rotated_token_has_a_grace_and_then_ends_its_grant(w: &mut World) {
        crate::oauth::rotation(w).await;
    }

    pub async fn a_code_is_used_once_by_whom_it_was_given_to(w: &mut World) {
        crate::oauth::codes(w).await;
    }

    pub async fn a_new_consent_is_a_new_agent_unless_the_owner_says_otherwise(w: &mut World) {
        crate::oauth::continuing(w).await;
    }

    pub async fn the_owners_page_is_read_with_a_code_from_the_desktop(w: &mut World) {
        crate::matrix_of_access::owners_page(w).await;
    }
}
