"""What administrators change and what is told of it. Answers are those of Slurm 22.05.8."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.slurm.slurmworld import World, world

from fairway.slurm.model.association import Account, User

GAVE_UP = "slurm_update error: No error\n"


def part(w: World, name: str = "p2") -> str:
    return w.type(f"scontrol -a -o show partition {name}", "root")[1]


@pytest.mark.parametrize(
    ("word", "code", "said"),
    [
        ("prioritytier=abc", 1, "scontrol: error: Invalid PriorityTier value: abc\n" + GAVE_UP),
        ("priorityjobfactor=70000", 1, "scontrol: error: Invalid PriorityJobFactor value: 70000\n" + GAVE_UP),
        ("gracetime=1:00", 1, "scontrol: error: Invalid GraceTime value: 1:00\n" + GAVE_UP),
        ("maxmempercpu=unlimited", 1, "scontrol: error: Invalid MaxMemPerCPU value: unlimited\n" + GAVE_UP),
        ("defaulttime=none", 1, "scontrol: error: Invalid input defaulttime=none\n" + GAVE_UP),
        ("maxnodes=abc", 1, 'scontrol: error: Invalid numeric value "abc" for MaxNodes.\n'),
        ("minnodes=abc", 0, 'scontrol: error: "abc" is not a valid node count\n'),
        ("jobdefaults=bogus", 1, "slurm_update error: Invalid JobDefaults specification\n"),
        ("tresbillingweights=x", 1, "slurm_update error: Invalid TRESBillingWeights specification\n"),
        ("", 1, "scontrol: error: No changes specified\n"),
        (
            "nodes+=n3",
            1,
            "scontrol: error: Update of this parameter is not supported: nodes+=n3\n\n"
            "scontrol: error: Request aborted\n" + GAVE_UP,
        ),
    ],
)
def test_what_a_partition_does_not_take(word: str, code: int, said: str) -> None:
    assert world().type(f"scontrol update partitionname=p2 {word}", "root") == (code, "", said)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("maxtime=10 defaulttime=20", " DefaultTime=NONE "),
        ("defaulttime=20 maxtime=30", " DefaultTime=00:20:00 "),
        ("shared=yes:abc", " OverSubscribe=EXCLUSIVE "),
        ("oversubscribe=force:2", " OverSubscribe=FORCE:2 "),
        ("preemptmode=suspend,gang", " PreemptMode=SUSPEND "),
        ("denyaccounts=", " AllowAccounts=ALL "),
        ("denyaccounts=accta", " DenyAccounts=accta "),
        ("cpubind=core", " CpuBind=cores "),
        ("disablerootjobs=y", " DisableRootJobs=YES "),
        ("alternate=none", " AllocNodes=ALL Default=NO "),
        ("nodes=nosuch", " Nodes=n[1-2] "),
    ],
)
def test_what_a_changed_partition_shows(words: str, shown: str) -> None:
    w = world()
    w.type(f"scontrol update partitionname=p2 {words}", "root")
    assert shown in part(w)


def test_unknown_nodes_leave_a_partition_without_any_and_forget_an_earlier_refusal() -> None:
    w = world()
    w.type("scontrol update partitionname=p2 nodes=nosuch", "root")
    assert "TotalNodes=0" in part(w)
    assert w.type("scontrol update partitionname=p2 qos=nosuch nodes=n3", "root") == (0, "", "")
    code, _, said = w.type("scontrol update partitionname=p2 qos=nosuch", "root")
    assert (code, said) == (1, "slurm_update error: Invalid qos specification\n")


def test_a_partition_whose_creation_was_refused_is_there() -> None:
    w = world()
    assert w.type("scontrol create partitionname=x nodes=nosuch", "root")[0] == 1
    assert " MinNodes=1 " in part(w, "x")
    assert w.type("scontrol create partitionname=y tresbillingweights=z", "root")[0] == 1
    assert part(w, "y") == "Partition y not found\n"


def test_reconfigure_brings_partitions_back_and_ends_jobs_of_those_that_are_no_more() -> None:
    w = world()
    w.type("scontrol create partitionname=x nodes=n3", "root")
    w.type("scontrol update partitionname=p2 state=down maxtime=5", "root")
    running, other = w.submit(50, partition="x"), w.submit(50, partition="p4")
    waiting = w.submit(50, partition="x", hold="user")
    w.run(3)
    assert w.type("scontrol reconfigure") == (1, "", "slurm_reconfigure error: Invalid user id\n")
    assert w.type("scontrol reconfigure", "root") == (0, "", "")
    assert [job.state for job in (running, waiting, other)] == ["NODE_FAIL", "CANCELLED", "RUNNING"]
    assert part(w, "x") == "Partition x not found\n"
    assert " MaxTime=UNLIMITED " in part(w)
    assert " State=UP " in part(w)


def test_who_sees_a_partition() -> None:
    w = world()
    w.type("scontrol update partitionname=p2 allowgroups=bob", "root")
    w.type("scontrol update partitionname=p4 hidden=yes", "root")
    seen = {user: w.type("sinfo -h -o %P", user)[1].split() for user in ("alice", "bob", "root")}
    assert seen == {"alice": ["p1*"], "bob": ["p1*", "p2"], "root": ["p1*", "p2", "p4"]}
    assert w.type("sinfo -a -h -o %P")[1].split() == ["p1*", "p2", "p4"]
    assert w.type("scontrol show partition p2")[:2] == (1, "Partition p2 not found\n")
    assert w.type("scontrol --all show partition p4")[1].startswith("PartitionName=p4\n")


def accounts() -> World:
    w = world()
    for name in ("accta", "acctb"):
        w.ctl.cluster.accounts.accounts[name] = Account(name, name, name)
    w.ctl.cluster.accounts.users["root"] = User("root", "root", "Administrator")
    return w


SHOW = "sacctmgr -n -P show"


def test_what_was_added_last_is_modified_first_and_what_came_together_in_order() -> None:
    w = accounts()
    w.type("sacctmgr -i add account zz,yy parent=accta", "root")
    w.type("sacctmgr -i add user dave account=zz,yy", "root")
    w.type("sacctmgr -i add user erin account=zz", "root")
    told = w.type("sacctmgr -i modify account zz,yy set qos=low", "root")[1]
    assert [line.split()[-1] for line in told.splitlines()[1:]] == ["accta", "erin", "dave", "accta", "dave"]
    shown = w.type(f"{SHOW} assoc format=account,user", "root")[1].split()
    assert shown == [
        "root|", "root|root", "accta|", "accta|alice", "accta|bob", "yy|", "yy|dave", "zz|", "zz|dave", "zz|erin",
        "acctb|", "acctb|carol",
    ]  # fmt: skip
    assert w.type(f"{SHOW} assoc where user=dave format=account", "root")[1].split() == ["zz", "yy"]
    assert w.type(f"{SHOW} account accta withassoc format=user", "root")[1].split() == ["bob", "alice"]


def test_an_account_that_moved_is_the_newest_there() -> None:
    w = accounts()
    for name in ("zz", "yy"):
        w.type(f"sacctmgr -i add account {name} parent=accta", "root")
    w.type("sacctmgr -i add user dave account=zz", "root")
    w.type("sacctmgr -i modify account acctb set parent=accta", "root")
    told = w.type("sacctmgr -i modify account zz,yy,acctb set fairshare=2", "root")[1]
    assert [line.split()[5] for line in told.splitlines()[1:]] == ["acctb", "yy", "zz"]


def test_a_coordinator_adds_users_to_his_account_and_below() -> None:
    w = accounts()
    w.type("sacctmgr -i add account sub parent=accta", "root")
    w.type("sacctmgr -i add coordinator account=accta names=alice", "root")
    assert w.type("sacctmgr -i add user carol account=sub", "alice")[0] == 0
    assert w.type("sacctmgr -i add user bob account=acctb", "alice")[::2] == (
        1,
        " Problem adding users: Access/permission denied\n",
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("modify account accta set fairshare=abc", "sacctmgr: error: Invalid value for FairShare (abc)\n"),
        ("modify account accta set maxjobs=x", "sacctmgr: error: Invalid value for MaxJobs (x)\n"),
        ("modify qos low set maxsubmitpu=4", " Unknown option: maxsubmitpu=4\n"),
        ("modify qos low set grpjobs=x", "sacctmgr: error: Invalid value for GrpJobs (x)\n"),
        ("add user dave account=accta bogus=1", " Unknown option: bogus=1\n"),
    ],
)
def test_settings_that_sacctmgr_refuses(line: str, told: str) -> None:
    code, out, said = accounts().type(f"sacctmgr -i {line}", "root")
    assert code == 1
    assert told in out + said


def test_a_number_counts_as_far_as_it_is_one() -> None:
    w = accounts()
    w.type("sacctmgr -i modify account accta set maxjobs=3x", "root")
    w.type("sacctmgr -i modify qos low set grpjobs=5", "root")
    w.type("sacctmgr -i modify qos low set grpjobs=-2 maxsubmitjobspu=6", "root")
    assert w.type(f"{SHOW} assoc account=accta format=maxjobs", "root")[1].split() == ["3"] * 3
    assert w.type(f"{SHOW} qos low format=grpjobs,maxsubmitpu", "root")[1] == "|6\n"


@pytest.mark.parametrize(
    ("line", "user", "said"),
    [
        ("create reservation starttime=now duration=5 users=alice", "root",
         "scontrol: error: CoreCnt, Nodes, NodeCnt, BurstBuffer, Licenses or Watts must be specified.  "
         "No reservation created.\n"),
        ("create reservation starttime=now endtime=now-1hour users=alice nodes=n1", "root",
         "scontrol: error: Start time cannot be after end time.  No reservation created.\n"),
        ("create reservation starttime=now duration=5 users=alice nodecnt=x", "root",
         "scontrol: error: Invalid node count x\n"),
        ("update reservation=r nodes+=n1", "root",
         "scontrol: error: The +=/-= notation is not supported when updating nodes.  No reservation update.\n"
         + GAVE_UP),
        ("update reservationname", "root",
         "scontrol: error: Reservation must be given.  No reservation update.\n"),
        ("create reservation=r starttime=now duration=5 users=alice tres=bogus=1", "root",
         "scontrol: error: couldn't identify configured TRES 'bogus'\n"),
        ("create reservation=r starttime=now duration=5 users=alice tres=mem=1", "root",
         "scontrol: error: TRES type 'mem' not supported with reservations\n"),
        ("create reservation=r starttime=now duration=5 users=alice tres=cpu=x", "root",
         "scontrol: error: invalid TRES cpu value 'x'\n"),
        ("create reservation=r starttime=now duration=5 users=alice tres=cpu", "root",
         "scontrol: error: invalid TRES 'cpu'\n"),
        ("create bogus", "root", "scontrol: error: Invalid creation entity: bogus\n"),
        ("create nodename=x state=cloud", "alice", "Error creating the node(s): Invalid user id\n"),
        ("create nodename=x state=cloud", "root", ""),
        ("delete nodename=x", "root",
         "scontrol: error: failed to delete nodes x\ndelete_node nodename=x: Invalid node name specified\n"),
        ("update nodename=ALL weight=2", "root", "slurm_update error: Invalid argument\n"),
        ("setdebug bogus", "root", "invalid debug level: bogus\n"),
        ("setdebugflags -backfill", "root", ""),
        ("setdebugflags bogus", "root", "invalid debug flag: bogus\nUsage: setdebugflags [+|-]NAME\n"),
        ("errnumstr abc", "alice", "numeric arguments required for keyword:errnumstr\n"),
        ("reboot", "root", "Missing node list. Specify ALL|<NodeList>\n"),
        ("notify 1", "root", "too few arguments for keyword:notify\n"),
        ("show p", "alice", "invalid entity:p for keyword:show \n"),
        ("cluster nosuch", "alice",
         "scontrol: error: No cluster 'nosuch' known by database.\n"
         "scontrol: error: 'nosuch' can't be reached now, or it is an invalid entry for --cluster.  "
         "Use 'sacctmgr list clusters' to see available clusters.\n"),
        ("write conf", "alice", "invalid write argument:conf\n"),
    ],
)  # fmt: skip
def test_what_scontrol_says(line: str, user: str, said: str) -> None:
    code, _, told = world().type(f"scontrol {line}", user)
    assert (code, told) == (1 if said else 0, said)


def test_flags_of_a_reservation_stand_in_slurms_order() -> None:
    w = accounts()
    w.type(
        "scontrol create reservation=r starttime=now+1hour duration=5 users=alice nodes=n1 flags=magnetic,flex",
        "root",
    )
    assert "Flags=FLEX,SPEC_NODES,MAGNETIC" in w.type("scontrol show res r")[1]


def test_a_list_of_tres_stands_letter_by_letter() -> None:
    w = accounts()
    told = w.type("sacctmgr -i add account zz grptres=node=4,gres/gpu=16,cpu=8", "root")[1]
    assert "GrpTRES       = cpu=8,gres/gpu=16,node=4" in told
    assert w.type(f"{SHOW} assoc account=zz format=grptres", "root")[1] == "cpu=8,gres/gpu=16,node=4\n"


def test_sacct_of_nothing_named() -> None:
    w = world()
    w.submit(1, "alice")
    w.submit(1, "bob")
    w.run(5)
    assert w.type("sacct -n -X -P -o user -j ''") == (0, "alice\n", "")
    assert w.type("sacct -n -X -P -o user -u ''") == (1, "", "")


def test_a_reservation_of_cores_shows_them_and_the_default_partition() -> None:
    w = accounts()
    create = "scontrol create starttime=now+1hour duration=5 users=alice"
    assert w.type(f"{create} reservation=r nodes=n1 corecnt=4", "root")[0] == 0
    shown = w.type("scontrol show res r")[1]
    assert "PartitionName=p1 Flags=SPEC_NODES\n     NodeName=n1 CoreIDs=0-3\n   TRES=" in shown
    assert w.type(f"{create} reservation=s nodes=n2", "root")[0] == 0
    assert "PartitionName=(null) Flags=SPEC_NODES\n   TRES=" in w.type("scontrol show res s")[1]


def test_a_reservation_of_no_length_has_no_end_and_one_of_no_nodes_all_of_its_partition() -> None:
    w = accounts()
    create = "scontrol create starttime=now users=alice"
    w.type(f"{create} reservation=r nodes=n3 duration=0", "root")
    assert " EndTime=Unknown " in w.type("scontrol show res r")[1]
    w.type(f"{create} reservation=s partitionname=p2 nodecnt=0 duration=5", "root")
    assert "Nodes=n[1-2] NodeCnt=2" in w.type("scontrol show res s")[1]


def test_idle_nodes_leave_a_smaller_reservation_first() -> None:
    w = accounts()
    w.submit(50, nodelist=("n1",))
    w.run(2)
    w.type(
        "scontrol create reservation=r starttime=now+1day users=alice nodecnt=2 partitionname=p2 duration=5",
        "root",
    )
    w.type("scontrol update reservation=r nodecnt=1", "root")
    assert "Nodes=n1 NodeCnt=1" in w.type("scontrol show res r")[1]
    w.type("scontrol update reservation=r nodecnt=2", "root")
    assert "Nodes=n[1-2] NodeCnt=2" in w.type("scontrol show res r")[1]


@pytest.mark.parametrize(
    ("line", "code", "out", "said"),
    [
        ("step abc", 1, "Job step 0.Invalid not found\n", ""),
        ("hostnames ''", 0, "", ""),
        ("hostnames", 0, "", "scontrol: error: host list is empty\n"),
        ("hostlist ''", 0, "\n", ""),
        ("hostlist", 1, "", "invalid encode argument\n"),
        ("hostlistsorted", 1, "", "invalid encode argument\n"),
        ("hostlist /nosuch/file", 1, "", "Can not open /nosuch/file\n"),
        ("hostlistsorted n02,n10,b,n1,n3", 0, "b,n[1,3,02,10]\n", ""),
    ],
)
def test_what_scontrol_shows_of_words(line: str, code: int, out: str, said: str) -> None:
    assert world().type(f"scontrol show {line}") == (code, out, said)


def test_hosts_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("n1\nn2\n\nn4,n5\n")
    assert world().type(f"scontrol show hostlist {tmp_path}/hosts") == (0, "n[1-2,4-5]\n", "")


def test_a_script_is_its_owners() -> None:
    w = world()
    w.submit(50, script="#!/bin/sh\n")
    assert w.type("scontrol write batch_script 1 -", "bob")[::2] == (
        0,
        "job script retrieval failed: Invalid user id\n",
    )
    assert w.type("scontrol write batch_script 1 -") == (0, "#!/bin/sh\n", "")


def test_a_removed_node_is_shown_to_nobody() -> None:
    w = world()
    assert w.type("scontrol delete nodename=n4", "root") == (0, "", "")
    assert "n4" not in w.type("sinfo -N -h -o %N")[1]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "delete account root",
            " You are not allowed to remove the root account.\n Use remove cluster instead.\n",
        ),
        ("modify qos low set preemptmode=x", " Bad Preempt Mode given: preemptmode=x\n"),
        ("modify qos low set priority=x", " You didn't give me anything to set\n"),
        ("modify account accta set grptres=cpu", "slurmdb_format_tres_str: no TRES id found for cpu\n"),
    ],
)
def test_what_sacctmgr_says(line: str, told: str) -> None:
    code, _, said = accounts().type(f"sacctmgr -i {line}", "root")
    assert code == 1
    assert told in said


def test_a_default_qos_is_one_that_may_be_used() -> None:
    w = accounts()
    w.type("sacctmgr -i modify account accta set qos=normal", "root")
    w.type("sacctmgr -i modify user bob set qos=normal", "root")
    assert (
        "don't have access to their default qos."
        in w.type("sacctmgr -i modify user bob set defaultqos=low", "root")[2]
    )
    assert w.type(f"{SHOW} assoc user=bob format=defaultqos", "root")[1] == "\n"


def test_an_account_goes_with_everything_below_it_and_a_user_of_one_partition_alone() -> None:
    w = accounts()
    w.type("sacctmgr -i add account sub parent=acctb", "root")
    w.type("sacctmgr -i add user dave account=sub partition=p1,p2", "root")
    assert w.type("sacctmgr -i delete user dave partition=p1", "root")[1].endswith(" P = p1\n")
    w.type("sacctmgr -i modify user account=sub set fairshare=7", "root")
    assert w.type(f"{SHOW} assoc user=dave format=partition,share", "root")[1] == "p2|7\n"
    w.type("sacctmgr -i delete account acctb", "root")
    assert w.type(f"{SHOW} assoc account=acctb,sub format=account", "root")[1] == ""
