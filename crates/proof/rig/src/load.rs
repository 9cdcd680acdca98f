//! A load on the caching client: programs that record each byte they write.

use bytes::Bytes;
use futures_util::future::join_all;
use leasehold_base::random::Random;
use leasehold_client::{
    Client, Credential, Error, Mode, NodeId, OpenHow, OpenId, SetAttributes, Status,
};

/// The parameters of a load: concurrent programs, each with its own file in the mounted directory.
/// Each program writes and reads at random offsets, and truncates, extends, syncs and closes its
/// file at random.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The number of programs.
    pub files: u64,
    /// The number of steps of each program.
    pub steps: u32,
    /// The maximum length of a file, in bytes.
    pub bytes_max: usize,
    /// True if each file must be new. A server that is killed during the load may have created a
    /// file without its reply, and then reports that the file already exists.
    pub exclusive: bool,
    /// The random seed. Two loads in one directory must have different seeds.
    pub seed: u64,
}

/// The counts of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// The number of bytes that programs wrote.
    pub written_bytes: u64,
    /// The number of bytes that programs read.
    pub read_bytes: u64,
    /// The number of bytes that were read with a wrong value, were missing, or were not expected.
    pub lost_bytes: u64,
}

/// The expected contents of a load's files.
#[derive(Clone, Debug)]
pub struct Files {
    seed: u64,
    contents: Vec<Vec<u8>>,
}

impl Load {
    /// Runs the load. Ends after an fsync has made all data durable.
    ///
    /// # Errors
    /// Returns the first failure of an operation.
    pub async fn run(self, client: &Client, who: &Credential) -> Result<(Files, Ledger), Error> {
        let lives = (0..self.files).map(|number| self.life(client, who, number));
        let (mut contents, mut total) = (Vec::new(), Ledger::default());
        for life in join_all(lives).await {
            let (bytes, ledger) = life?;
            total = total.plus(ledger);
            contents.push(bytes);
        }
        Ok((Files { seed: self.seed, contents }, total))
    }

    async fn life(
        self,
        client: &Client,
        who: &Credential,
        number: u64,
    ) -> Result<(Vec<u8>, Ledger), Error> {
        let mode = (Mode::from_bits(0o600), self.exclusive);
        let place = (NodeId::ROOT, &name(self.seed, number)[..]);
        let (found, open) = client.create(who, place, mode, OpenHow::READ_WRITE).await?;
        let mut program = Program {
            client,
            who,
            random: Random::from_seed(self.seed.wrapping_mul(self.files).wrapping_add(number)),
            node: found.node,
            open,
            bytes: Vec::new(),
            bytes_max: self.bytes_max,
            ledger: Ledger::default(),
        };
        for _ in 0..self.steps {
            program.step().await?;
        }
        client.fsync(program.open).await?;
        client.flush(program.open).await?;
        client.release(program.open);
        client.forget(found.node, 1);
        Ok((program.bytes, program.ledger))
    }
}

impl Files {
    /// Reads the files, for example by another client, and compares them with the expected
    /// contents.
    ///
    /// # Errors
    /// Like [`Load::run`].
    pub async fn compare(&self, client: &Client, who: &Credential) -> Result<Ledger, Error> {
        let mut ledger = Ledger::default();
        for (number, bytes) in (0..).zip(&self.contents) {
            let found = client.lookup(who, NodeId::ROOT, &name(self.seed, number)).await?;
            let open = client.open(who, found.node, OpenHow::READ).await?;
            let more = u32::try_from(bytes.len() + 1).map_err(|_| too_big())?;
            ledger.compare(&client.read(open, 0, more).await?.into_bytes(), bytes);
            client.release(open);
            client.forget(found.node, 1);
        }
        Ok(ledger)
    }
}

impl Ledger {
    /// Returns the sums of the counts of two loads.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            written_bytes: self.written_bytes + other.written_bytes,
            read_bytes: self.read_bytes + other.read_bytes,
            lost_bytes: self.lost_bytes + other.lost_bytes,
        }
    }

    fn compare(&mut self, read: &[u8], due: &[u8]) {
        let other = read.iter().zip(due).filter(|(read, due)| read != due).count();
        self.read_bytes += read.len() as u64;
        self.lost_bytes += (other + read.len().abs_diff(due.len())) as u64;
    }
}

fn name(seed: u64, number: u64) -> Vec<u8> {
    format!("load-{seed}-{number}").into_bytes()
}

const fn too_big() -> Error {
    Error::Failed(Status::FileTooBig)
}

/// One program's file and its expected contents.
struct Program<'a> {
    client: &'a Client,
    who: &'a Credential,
    random: Random,
    node: NodeId,
    open: OpenId,
    bytes: Vec<u8>,
    bytes_max: usize,
    ledger: Ledger,
}

impl Program<'_> {
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.random.next_u64() % end as u64).unwrap_or(0)
    }

    async fn step(&mut self) -> Result<(), Error> {
        match self.below(16) {
            0..=6 => self.write().await,
            7..=11 => self.read().await,
            12 => self.resize().await,
            13 => self.client.fsync(self.open).await,
            14 => {
                self.client.flush(self.open).await?;
                self.client.release(self.open);
                self.open = self.client.open(self.who, self.node, OpenHow::READ_WRITE).await?;
                Ok(())
            }
            _ => {
                let seen = self.client.getattr(self.who, self.node).await?;
                self.ledger.lost_bytes += seen.attributes.size.abs_diff(self.bytes.len() as u64);
                Ok(())
            }
        }
    }

    async fn write(&mut self) -> Result<(), Error> {
        let offset = self.below(self.bytes_max - 1);
        let length = 1 + self.below((self.bytes_max - offset).min(40_000));
        let first = self.random.next_u64();
        let byte = |at: u64| first.wrapping_add(at).wrapping_mul(0x9e37_79b9).to_le_bytes()[2];
        let data: Vec<u8> = (0..length as u64).map(byte).collect();
        let end = offset + length;
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[offset..end].copy_from_slice(&data);
        self.ledger.written_bytes += length as u64;
        self.client.write(self.open, offset as u64, Bytes::from(data)).await
    }

    async fn read(&mut self) -> Result<(), Error> {
        let offset = self.below(self.bytes_max);
        let length = 1 + self.below(60_000);
        let count = u32::try_from(length).map_err(|_| too_big())?;
        let read = self.client.read(self.open, offset as u64, count).await?.into_bytes();
        let all = &self.bytes;
        let due = &all[offset.min(all.len())..(offset + length).min(all.len())];
        self.ledger.compare(&read, due);
        Ok(())
    }

    async fn resize(&mut self) -> Result<(), Error> {
        let size = self.below(self.bytes_max);
        let attributes = SetAttributes { size: Some(size as u64), ..SetAttributes::default() };
        let seen = self.client.setattr(self.who, self.node, &attributes).await?;
        self.ledger.lost_bytes += seen.attributes.size.abs_diff(size as u64);
        self.bytes.resize(size, 0);
        Ok(())
    }
}
