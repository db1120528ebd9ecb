//! Questions to real weights, answered together as inference servers do.
//!
//! Owns the queue. Whoever finds the weights free answers all that wait for the same adapter and
//! temperature; a prompt that is asked with several seeds is read once.

use std::collections::BTreeMap;
use std::mem;
use std::sync::mpsc::{Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use patchrl_model::{Finish, Model, Policy, Request, Sample, Sampling, generate};

use crate::brain::{Thought, Wish};

/// How long questions that were sent together may take to arrive.
const ARRIVAL: Duration = Duration::from_millis(5);

type Answer = Result<Thought, String>;

#[derive(Default)]
pub(crate) struct Desk {
    waiting: Mutex<Vec<Order>>,
    /// One batch at a time.
    busy: Mutex<()>,
}

struct Order {
    wish: Wish,
    answer: Sender<Answer>,
}

impl Order {
    /// Whether both can be in one batch.
    fn goes_with(&self, other: &Self) -> bool {
        let how = |Self { wish, .. }: &Self| {
            (wish.adapter.as_ref().map(Arc::as_ptr), wish.temperature.to_bits())
        };
        how(self) == how(other)
    }
}

impl Desk {
    /// The answer to one question.
    pub(crate) fn ask(&self, policy: &Policy, wish: Wish) -> Answer {
        let (answer, answered) = channel();
        self.waiting.lock().unwrap().push(Order { wish, answer });
        std::thread::sleep(ARRIVAL);
        let _busy = self.busy.lock().unwrap();
        // An earlier batch may have held this question already.
        loop {
            match answered.try_recv() {
                Ok(answer) => return answer,
                Err(TryRecvError::Disconnected) => return Err("the question was lost".into()),
                Err(TryRecvError::Empty) => answer_all(policy, self.next()),
            }
        }
    }

    /// The oldest question and all that go with it.
    fn next(&self) -> Vec<Order> {
        let mut waiting = self.waiting.lock().unwrap();
        let mut batch: Vec<Order> = Vec::new();
        for order in mem::take(&mut *waiting) {
            match batch.first() {
                Some(first) if !order.goes_with(first) => waiting.push(order),
                _ => batch.push(order),
            }
        }
        batch
    }
}

fn answer_all(policy: &Policy, batch: Vec<Order>) {
    let Some(first) = batch.first() else { return };
    let sampling = Sampling {
        temperature: first.wish.temperature,
        top_p: 1.0,
        top_k: 0,
        max_new_tokens: batch.iter().map(|order| order.wish.most).max().unwrap(),
        stop: policy.tokenizer.eos().to_vec(),
    };
    let adapter = first.wish.adapter.clone();
    let model: &Model = adapter.as_deref().unwrap_or(&policy.model);
    let mut same: BTreeMap<(Vec<u32>, usize), Vec<Order>> = BTreeMap::new();
    for order in batch {
        same.entry((order.wish.prompt.clone(), order.wish.most)).or_default().push(order);
    }
    let seeds = |orders: &[Order]| orders.iter().map(|order| order.wish.seed).collect();
    let requests: Vec<Request<'_>> = same
        .iter()
        .map(|((prompt, most), orders)| Request {
            prompt,
            seeds: seeds(orders),
            also: Vec::new(),
            most: *most,
        })
        .collect();
    let drawn = generate(model, &requests, &sampling, &mut |_| {}).map_err(|e| e.to_string());
    drop(requests);
    let orders = same.into_values().flatten();
    match drawn {
        Ok(groups) => {
            for (order, sample) in orders.zip(groups.into_iter().flatten()) {
                // Nobody listens once the client has gone.
                let _ = order.answer.send(Ok(thought(policy, order.wish.prompt, sample)));
            }
        }
        Err(why) => orders.for_each(|order| drop(order.answer.send(Err(why.clone())))),
    }
}

fn thought(policy: &Policy, prompt: Vec<u32>, sample: Sample) -> Thought {
    let text = policy.tokenizer.decode(&sample.tokens);
    let length = sample.finish == Finish::Length;
    Thought { prompt, tokens: sample.tokens, log_probs: sample.log_probs, text, length }
}
