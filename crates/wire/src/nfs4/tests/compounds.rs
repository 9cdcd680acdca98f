use super::compound::{Args, CallWriter, Header, Operations, ReplyHeader, ReplyWriter, Results};
use super::*;
use leasehold_base::xdr::Error;

/// The arguments of SEQUENCE in a call.
fn sequence_args() -> sequence::Args {
    sequence::Args {
        session: SESSION,
        sequence: SequenceId(1),
        slot: SlotId(2),
        highest_slot: SlotId(3),
        cache: true,
    }
}

/// The results of SEQUENCE in a reply.
fn sequence_done() -> sequence::Done {
    sequence::Done {
        session: SESSION,
        sequence: SequenceId(1),
        slot: SlotId(2),
        highest_slot: SlotId(3),
        target_highest_slot: SlotId(3),
        status: sequence::StatusFlags(0),
    }
}

/// The call of the tests: a tag, minor version 2, and three operations.
const CALL: &str = "00000003 'tag' 00 00000002 00000003
    00000035 000102030405060708090a0b0c0d0e0f 00000001 00000002 00000003 00000001
    00000016 00000005 0102030405 000000
    00000009 00000001 00000018";

#[test]
fn a_client_encodes_operations_in_order() {
    let mut call = CallWriter::new(Writer::new(), Tag(b"tag"), 2);
    assert!(call.is_empty());
    call.append(&Args::Sequence(sequence_args()));
    call.append(&Args::PutHandle(handle()));
    let length = call.len();
    let requested = Bitmap::of(&[Attribute::Change, Attribute::Size]);
    call.append_raw(Operation::GetAttributes.into(), &requested);
    assert_eq!((call.len() - length, call.is_empty()), (12, false));
    assert_eq!(call.finish().finish().into_bytes(), bytes(CALL));
}

#[test]
fn a_server_decodes_one_operation_at_a_time() {
    let message = bytes(CALL);
    let mut reader = Reader::new(&message);
    let header = Header::decode(&mut reader).expect("a header");
    assert_eq!(header, Header { tag: Tag(b"tag"), minor_version: 2, count: 3 });
    let numbers = [Operation::Sequence, Operation::PutHandle, Operation::GetAttributes];
    for operation in numbers {
        let number = Number::decode(&mut reader).expect("a number");
        assert_eq!(number.operation(), Some(operation));
        let args = Args::decode_of(operation, &mut reader).expect("arguments");
        assert_eq!(args.operation(), operation);
    }
    assert_eq!(reader.finish(), Ok(()));
}

#[test]
fn an_invalid_third_operation_leaves_the_first_two() {
    let invalid = CALL.replace("00000009 00000001 00000018", "00000009 00000041");
    let message = bytes(&invalid);
    let mut reader = Reader::new(&message);
    let header = Header::decode(&mut reader).expect("a header");
    let mut operations = Operations::new(reader, header.count);
    assert_eq!(operations.next(), Some(Ok(Args::Sequence(sequence_args()))));
    assert_eq!(operations.next(), Some(Ok(Args::PutHandle(handle()))));
    assert_eq!(operations.next(), Some(Err(Error::TooLong)));
    assert_eq!(operations.next(), None);
}

#[test]
fn operations_without_arguments_here_are_not_decoded() {
    for obsolete in Operation::ALL.iter().copied().filter(|operation| operation.is_obsolete()) {
        let message = bytes("00000000 00000000");
        assert_eq!(Args::decode_of(obsolete, &mut Reader::new(&message)), Err(Error::BadValue));
    }
    let unknown = bytes("0000004c 00000000");
    assert_eq!(Args::decode(&mut Reader::new(&unknown)), Err(Error::BadValue));
    let number = Number::decode(&mut Reader::new(&unknown)).expect("a number");
    assert_eq!((number, number.operation()), (Number(76), None));
}

#[test]
fn a_server_encodes_results_one_at_a_time() {
    let mut reply = ReplyWriter::new(Writer::new(), Tag(b"tag"));
    assert_eq!((reply.len(), reply.is_empty()), (16, true));
    reply.append(Operation::Sequence, &sequence::Reply::Done(sequence_done()));
    reply.append(Operation::PutHandle, &OK);
    let (mark, length) = (reply.mark(), reply.len());
    reply.append(Operation::GetHandle, &getfh::Reply::Done(handle()));
    reply.rewind(&mark);
    assert_eq!((reply.len(), reply.count()), (length, 2));
    reply.append_failure(Operation::GetAttributes, Status::ReplyTooBig);
    let reply = reply.finish(Completion::Failed(Status::ReplyTooBig)).finish().into_bytes();
    let expected = bytes(&format!(
        "00002752 00000003 'tag' 00 00000003
         00000035 00000000 {SESS} 00000001 00000002 00000003 00000003 00000000
         00000016 00000000
         00000009 00002752"
    ));
    assert_eq!(reply, expected);
    let mut reader = Reader::new(&reply);
    let header = ReplyHeader::decode(&mut reader).expect("a header");
    let status = Completion::Failed(Status::ReplyTooBig);
    assert_eq!(header, ReplyHeader { status, tag: Tag(b"tag"), count: 3 });
    let results: Vec<_> = Operations::new(reader, header.count).collect();
    assert_eq!(
        results,
        [
            Ok(Results::Sequence(sequence::Reply::Done(sequence_done()))),
            Ok(Results::PutHandle(OK)),
            Ok(Results::GetAttributes(getattr::Reply::Failed(Status::ReplyTooBig))),
        ]
    );
}

#[test]
fn data_of_a_reply_is_not_copied_and_can_be_removed() {
    let data = Bytes::from(vec![7; 4096]);
    let mut reply = ReplyWriter::new(Writer::new(), Tag(b""));
    let mark = reply.mark();
    let done = read::Reply::Done(read::Done { end: true, data: data.clone() });
    reply.append(Operation::Read, &done);
    reply.rewind(&mark);
    assert_eq!(reply.len(), 12);
    reply.append(Operation::Read, &done);
    reply.append(Operation::GetHandle, &getfh::Reply::Failed(Status::Stale));
    let message = reply.finish(Completion::Failed(Status::Stale)).finish();
    let (before, payload, after) = message.parts();
    assert_eq!(
        before,
        &bytes("00000046 00000000 00000002 00000019 00000000 00000001 00001000")[..]
    );
    assert_eq!((payload.as_ptr(), payload.len()), (data.as_ptr(), 4096));
    assert_eq!(after, &bytes("0000000a 00000046")[..]);
}

#[test]
fn failures_have_the_fields_of_their_operation() {
    for operation in Operation::ALL.iter().copied() {
        for status in Status::ALL.iter().copied() {
            let mut reply = ReplyWriter::new(Writer::new(), Tag(b""));
            reply.append_failure(operation, status);
            let message = reply.finish(Completion::Failed(status)).finish().into_bytes();
            let mut reader = Reader::new(&message);
            let header = ReplyHeader::decode(&mut reader).expect("a header");
            let mut results = Operations::<Results<'_>>::new(reader, header.count);
            let result = results.next().expect("one result").expect("valid results");
            assert_eq!(result.status(), Completion::Failed(status), "{operation:?}");
            assert_eq!(result.number(), operation.into());
            assert_eq!(results.rest().finish(), Ok(()), "{operation:?} {status:?}");
        }
    }
    let mut reply = ReplyWriter::new(Writer::new(), Tag(b""));
    reply.append_failure(Number::ILLEGAL, Status::IllegalOperation);
    let message = reply.finish(Completion::Failed(Status::IllegalOperation)).finish();
    assert_eq!(message.into_bytes(), bytes("0000273c 00000000 00000001 0000273c 0000273c"));
}

#[test]
fn a_callback_refers_to_calls_and_recalls_a_delegation() {
    use super::callback::sequence::{ReferringCall, ReferringCalls};
    use super::callback::{Args, CallWriter, Header, Results, recall, sequence};
    let referring = Array(vec![ReferringCalls {
        session: SESSION,
        calls: Array(vec![ReferringCall { sequence: SequenceId(9), slot: SlotId(4) }]),
    }]);
    let operations = [
        Args::Sequence(sequence::Args {
            session: SESSION,
            sequence: SequenceId(1),
            slot: SlotId(0),
            highest_slot: SlotId(0),
            cache: false,
            referring,
        }),
        Args::Recall(recall::Args { stateid: STATE, truncate: false, object: handle() }),
    ];
    let mut call = CallWriter::new(Writer::new(), Tag(b""), 1);
    operations.iter().for_each(|args| call.append(args));
    assert!(!call.is_empty());
    assert_eq!(call.len(), 16 + 68 + 36);
    let call = call.finish().finish().into_bytes();
    let expected = bytes(&format!(
        "00000000 00000001 00000000 00000002
         0000000b {SESS} 00000001 00000000 00000000 00000000
         00000001 {SESS} 00000001 00000009 00000004
         00000004 {SID} 00000000 {FH}"
    ));
    assert_eq!(call, expected);
    let mut reader = Reader::new(&call);
    let header = Header::decode(&mut reader).expect("a header");
    let read: Result<Vec<Args<'_>>, _> = Operations::new(reader, header.count).collect();
    assert_eq!(read.as_deref(), Ok(&operations[..]));

    let done = sequence::Done {
        session: SESSION,
        sequence: SequenceId(1),
        slot: SlotId(0),
        highest_slot: SlotId(15),
        target_highest_slot: SlotId(15),
    };
    let mut reply = ReplyWriter::new(Writer::new(), Tag(b""));
    reply.append(callback::Operation::Sequence, &sequence::Reply::Done(done));
    reply.append(callback::Operation::Recall, &OK);
    let reply = reply.finish(OK).finish().into_bytes();
    let expected = bytes(&format!(
        "00000000 00000000 00000002
         0000000b 00000000 {SESS} 00000001 00000000 0000000f 0000000f 00000004 00000000"
    ));
    assert_eq!(reply, expected);
    let mut reader = Reader::new(&reply);
    let header = ReplyHeader::decode(&mut reader).expect("a header");
    let results: Vec<_> = Operations::new(reader, header.count).collect();
    let sequence = Results::Sequence(sequence::Reply::Done(done));
    assert_eq!(results, [Ok(sequence), Ok(Results::Recall(OK))]);
}

#[test]
fn counts_above_their_limits_are_refused_before_the_values() {
    let refused = |operation, description: &str| {
        let message = bytes(description);
        Args::decode_of(operation, &mut Reader::new(&message)).err()
    };
    let too_long = Some(Error::TooLong);
    assert_eq!(refused(Operation::PutHandle, "00000081"), too_long);
    assert_eq!(refused(Operation::TestStateid, "00000401"), too_long);
    assert_eq!(refused(Operation::Lookup, "00001001"), too_long);
    assert_eq!(refused(Operation::BackChannelControl, "00000000 00000011"), too_long);
    assert_eq!(refused(Operation::SetSsv, "00000401"), too_long);
    let write = format!("{SID} 0000000000000000 00000000 00100001");
    assert_eq!(refused(Operation::Write, &write), too_long);
    assert_eq!(refused(Operation::SetXattr, "00000000 00000001 'a' 000000 00010001"), too_long);
    let error = format!("0000000000000000 0000000000000000 {SID} 00000041");
    assert_eq!(refused(Operation::LayoutError, &error), too_long);
    // A count within the limit without values takes no memory.
    assert_eq!(refused(Operation::TestStateid, "00000400"), Some(Error::Short));
}
